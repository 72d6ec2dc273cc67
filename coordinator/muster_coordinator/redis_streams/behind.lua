-- How many entries of a partition lie behind a committed offset, counted as far as a budget goes.
--
-- KEYS: the stream; the hash beside it. ARGV: the cluster's id; the topic's incarnation, '' if the caller does not know
--   it; the id of the offset before the committed one; how many entries are looked at, at most; and how many bytes, which
--   the last look alone may exceed.
-- Returns {OK, entries counted, the id of the last of them or '' if these are all, entries in the stream, first id, last
--   id}; or {FENCED | UNCLAIMED | TYPE | BEYOND, detail}. BEYOND: no such offset was ever given.
--
-- A position before the first entry, or at the last one, costs no look at entries. How many are asked for at once grows
-- while those that came are small. Bytes are those of names and values, with something for what holds them.
local ENTRY_OVERHEAD, FIELD_OVERHEAD, STEP_MAX = 40, 10, 128
local stream, state = KEYS[1], KEYS[2]
local id, entries_max, bytes_max = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])

-- Is the first id behind the second? They have 64 bits, which numbers of Lua do not hold.
local function behind(one, other)
  local ms, sequence = one:match('^(%d+)%-(%d+)$')
  local other_ms, other_sequence = other:match('^(%d+)%-(%d+)$')
  local function above(a, b)
    return #a > #b or (#a == #b and a > b)
  end
  return above(ms, other_ms) or (ms == other_ms and above(sequence, other_sequence))
end

local claimed = tonumber(redis.call('HGET', state, 'incarnation') or '0')
local incarnation = ARGV[2] == '' and claimed or tonumber(ARGV[2])
if claimed > incarnation then
  return {'FENCED', redis.call('HGET', state, 'epoch')}
elseif claimed < incarnation or redis.call('HGET', state, 'cluster') ~= ARGV[1] then
  return {'UNCLAIMED', ''}
end
local kind = redis.call('TYPE', stream)['ok']
if kind == 'none' then
  return id == '0-0' and {'OK', 0, '', 0, '', ''} or {'BEYOND', '0-0'}
elseif kind ~= 'stream' then
  return {'TYPE', kind}
end

local told, info = redis.call('XINFO', 'STREAM', stream), {}
for at = 1, #told, 2 do
  info[told[at]] = told[at + 1]
end
if behind(id, info['last-generated-id']) then
  return {'BEYOND', info['last-generated-id']}
end
local length = info['length']
if length == 0 then
  return {'OK', 0, '', 0, '', ''}
end
local first, last = info['first-entry'][1], info['last-entry'][1]
if behind(first, id) then
  return {'OK', length, '', length, first, last}
end
local count, size, step, reached = 0, 0, 1, id
while behind(last, reached) do
  if count >= entries_max or size >= bytes_max then
    return {'OK', count, reached, length, first, last}
  end
  local some = redis.call('XRANGE', stream, '(' .. reached, '+', 'COUNT', math.min(step, entries_max - count))
  for _, entry in ipairs(some) do
    size = size + ENTRY_OVERHEAD
    for _, part in ipairs(entry[2]) do
      size = size + #part + FIELD_OVERHEAD
    end
  end
  count, reached = count + #some, some[#some][1]
  step = math.max(1, math.min(2 * step, STEP_MAX, math.floor((bytes_max - size) * count / size)))
end
return {'OK', count, '', length, first, last}
