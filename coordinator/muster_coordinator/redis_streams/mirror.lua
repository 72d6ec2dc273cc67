-- Show where a group of Kafka is as a consumer group of Redis at the partition's stream, or take that away.
--
-- KEYS: the stream; the hash beside it, in which `g:NAME` notes a consumer group that this script made, as "SHARD TERM
--   NUMBER" of the last call that set it.
-- ARGV: the cluster's id; the topic's incarnation; the Raft group of the group's coordinator, its term, and the number
--   of this call in that; the group; the id of the entry before its committed offset, '' to take the group away; how
--   many entries behind that id, and bytes of them, are counted at most; 'keep' if the stream is somebody else's.
-- Returns {word, detail}: OK; STALE, a later call was here; FOREIGN, there is a group of this name that was not made
--   here; USED, it was, and has consumers of Redis now; FENCED by a later topic of this name; UNCLAIMED; TYPE; NONE, the
--   stream is not there, and is somebody else's to make.
--
-- A group that is not noted, or has consumers, is never set or destroyed. It is made first and noted then: where the
-- note is refused, the group is foreign from then on. ENTRIESREAD is given where it is certain: no entry behind the id
-- was deleted or trimmed, and those that are there are few.
local ENTRY_OVERHEAD, FIELD_OVERHEAD, STEP_MAX = 40, 10, 64
local stream, state = KEYS[1], KEYS[2]
local incarnation, shard, term, number = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local group, id, entries_max, bytes_max = ARGV[6], ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9])
local note = 'g:' .. group

-- Is the first id behind the second? They have 64 bits, which numbers of Lua do not hold.
local function behind(one, other)
  local ms, sequence = one:match('^(%d+)%-(%d+)$')
  local other_ms, other_sequence = other:match('^(%d+)%-(%d+)$')
  local function above(a, b)
    return #a > #b or (#a == #b and a > b)
  end
  return above(ms, other_ms) or (ms == other_ms and above(sequence, other_sequence))
end

-- How many entries up to the id the stream has ever had; nil: it is not certain.
local function entries_read()
  local told, info = redis.call('XINFO', 'STREAM', stream), {}
  for at = 1, #told, 2 do
    info[told[at]] = told[at + 1]
  end
  if behind(id, info['last-generated-id']) or behind(info['max-deleted-entry-id'], id) then
    return nil
  end
  local added, length = info['entries-added'], info['length']
  if length == 0 then
    return id == info['last-generated-id'] and added or nil
  elseif added > length and behind(info['first-entry'][1], id) then
    return nil
  end
  local count, size, step, from = 0, 0, 1, id
  while count <= entries_max do
    local some = redis.call('XRANGE', stream, '(' .. from, '+', 'COUNT', step)
    for _, entry in ipairs(some) do
      size = size + ENTRY_OVERHEAD
      for _, part in ipairs(entry[2]) do
        size = size + #part + FIELD_OVERHEAD
      end
    end
    count = count + #some
    if #some < step then
      return count <= entries_max and added - count or nil
    elseif size > bytes_max then
      return nil
    end
    from, step = some[#some][1], math.min(2 * step, STEP_MAX)
  end
  return nil
end

local claimed = tonumber(redis.call('HGET', state, 'incarnation') or '0')
if claimed > incarnation then
  return {'FENCED', redis.call('HGET', state, 'epoch')}
elseif claimed < incarnation or redis.call('HGET', state, 'cluster') ~= ARGV[1] then
  return {'UNCLAIMED', ''}
end
local noted = redis.call('HGET', state, note)
if noted then
  local its_shard, its_term, its_number = noted:match('^(%d+) (%d+) (%d+)$')
  its_term, its_number = tonumber(its_term), tonumber(its_number)
  if its_shard == shard and (its_term > term or (its_term == term and its_number > number)) then
    return {'STALE', noted}
  end
end
local kind = redis.call('TYPE', stream)['ok']
if kind ~= 'stream' and kind ~= 'none' then
  return {'TYPE', kind}
end
local exists, used = false, false
if kind == 'stream' then
  local consumers = redis.pcall('XINFO', 'CONSUMERS', stream, group)
  if not consumers.err then
    exists, used = true, #consumers > 0
  elseif not consumers.err:find('NOGROUP', 1, true) then
    return consumers
  end
end

if id == '' then
  if not noted then
    return {'OK', ''}
  elseif exists and not used then
    redis.call('XGROUP', 'DESTROY', stream, group)
  end
  redis.call('HDEL', state, note)
  return {used and 'USED' or 'OK', ''}
end
if exists and not noted then
  return {'FOREIGN', ''}
elseif used then
  return {'USED', ''}
elseif kind == 'none' and ARGV[10] == 'keep' then
  redis.call('HDEL', state, note)  -- else a group that they make with the stream would be taken for ours
  return {'NONE', ''}
end
local counted = kind == 'stream' and entries_read()
local command = {'XGROUP', exists and 'SETID' or 'CREATE', stream, group, id}
if not exists then
  command[#command + 1] = 'MKSTREAM'  -- of a stream of ours: the topic is there, though it has no record yet
end
if counted then
  command[#command + 1] = 'ENTRIESREAD'
  command[#command + 1] = string.format('%.0f', counted)
end
redis.call(unpack(command))
redis.call('HSET', state, note, shard .. ' ' .. ARGV[4] .. ' ' .. ARGV[5])
return {'OK', ''}
