-- Read entries of a partition, with what the stream says of its ends at the same moment.
--
-- KEYS: the stream; the hash beside it. ARGV: the incarnation; where to begin, as XRANGE has it, or 'last' for the last
--   entry; how many entries at most; and how many bytes, which the first entry alone may exceed.
-- Returns {word, last id ever, kept start, first id if any entry is gone, entries}: OK; or {FENCED | UNCLAIMED | TYPE,
--   detail}. The kept start is the id at which DeleteRecords has put the start, '' if it has not; the first id is '' if
--   nothing was ever trimmed or deleted, '0-0' if nothing is left.
local ENTRY_OVERHEAD, FIELD_OVERHEAD, STEP_MAX = 40, 10, 64
local stream, state = KEYS[1], KEYS[2]
local incarnation, from = tonumber(ARGV[1]), ARGV[2]
local entries_max, bytes_max = tonumber(ARGV[3]), tonumber(ARGV[4])

local claimed = tonumber(redis.call('HGET', state, 'incarnation') or '0')
if claimed > incarnation then
  return {'FENCED', redis.call('HGET', state, 'epoch')}
elseif claimed < incarnation then
  return {'UNCLAIMED', ''}
end
local start = redis.call('HGET', state, 'start') or ''
local kind = redis.call('TYPE', stream)['ok']
if kind == 'none' then
  return {'OK', '0-0', start, '', {}}
elseif kind ~= 'stream' then
  return {'TYPE', kind}
end

local told, info = redis.call('XINFO', 'STREAM', stream), {}
for at = 1, #told, 2 do
  info[told[at]] = told[at + 1]
end
local first = ''
if info['entries-added'] > info['length'] then
  first = info['length'] > 0 and info['first-entry'][1] or '0-0'
end

if from == 'last' then
  return {'OK', info['last-generated-id'], start, first, redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)}
end
local entries, size, step = {}, 0, 1
while #entries < entries_max do
  local wanted = math.min(step, entries_max - #entries)
  local some = redis.call('XRANGE', stream, from, '+', 'COUNT', wanted)
  for _, entry in ipairs(some) do
    size = size + ENTRY_OVERHEAD
    for _, part in ipairs(entry[2]) do
      size = size + #part + FIELD_OVERHEAD
    end
    if size > bytes_max and #entries > 0 then
      return {'OK', info['last-generated-id'], start, first, entries}
    end
    entries[#entries + 1] = entry
  end
  if #some < wanted then
    break
  end
  from, step = '(' .. some[#some][1], math.min(2 * step, STEP_MAX)
end
return {'OK', info['last-generated-id'], start, first, entries}
