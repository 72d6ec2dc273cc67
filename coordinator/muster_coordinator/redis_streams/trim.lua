-- Remove a partition's oldest entries: DeleteRecords, which keeps where the log begins now, or retention.
--
-- KEYS: the stream; the hash beside it. ARGV: the incarnation; the owner's epoch; the id below which all entries go;
--   'exact', or 'about' to remove whole nodes only; with 'about' the bytes of memory to keep at least, -1 for all.
-- Returns {word, detail}: OK; FENCED with the owner's epoch; UNCLAIMED; TYPE. The kept start never moves back.
--
-- Offsets have gaps, and the first entry that is left may come long after the end of what is gone: a reader who was there
-- has missed nothing. Where all that is gone lies before the kept start, `gone` of the hash counts it: as long as no
-- more is, the log begins at the kept start (`read.lua`). So it is too where retention has left nothing.
-- Bytes are MEMORY USAGE's, which looks at some nodes and takes the others to be like them.
local SAMPLES, EXACT_DIGITS = 16, 15
local stream, state = KEYS[1], KEYS[2]
local refused = refusal(state, tonumber(ARGV[1]), tonumber(ARGV[2]))
if refused then
  return refused
end
local kind = redis.call('TYPE', stream)['ok']
if kind ~= 'stream' and kind ~= 'none' then
  return {'TYPE', kind}
end
-- The id behind this one, as far as numbers of Lua reach: no offset is of a sequence beyond, so there it is the next
-- millisecond's. The server's own ids stay far below; of an id whose milliseconds are beyond no offset is told at all.
local function behind(id)
  local ms, sequence = id:match('^(%d+)%-(%d+)$')
  if #ms > EXACT_DIGITS then
    return id
  elseif #sequence > EXACT_DIGITS then
    return string.format('%.0f-0', tonumber(ms) + 1)
  end
  return ms .. '-' .. string.format('%.0f', tonumber(sequence) + 1)
end

-- All that is gone lies before this id, or with nil, behind the last one.
local function keep(start)
  local gone, last = 0, '0-0'
  if kind == 'stream' then
    local told, info = redis.call('XINFO', 'STREAM', stream), {}
    for at = 1, #told, 2 do
      info[told[at]] = told[at + 1]
    end
    gone, last = info['entries-added'] - info['length'], info['last-generated-id']
  end
  start = start or behind(last)
  redis.call('HSET', state, 'start', start, 'gone', string.format('%.0f', gone))
end

if ARGV[4] == 'about' then
  local before = redis.call('XLEN', stream)
  redis.call('XTRIM', stream, 'MINID', '~', ARGV[3])
  local kept_bytes = tonumber(ARGV[5])
  local length = kept_bytes >= 0 and redis.call('XLEN', stream) or 0
  if length > 0 then
    local used_bytes = redis.call('MEMORY', 'USAGE', stream, 'SAMPLES', SAMPLES)
    if used_bytes > kept_bytes then
      redis.call('XTRIM', stream, 'MAXLEN', '~', math.ceil(length * kept_bytes / used_bytes))
    end
  end
  if before > 0 and redis.call('XLEN', stream) == 0 then
    keep(nil)
  end
  return {'OK', ''}
end
local kept = redis.call('HGET', state, 'start') or '0-0'
local kept_ms, kept_sequence = kept:match('^(%d+)%-(%d+)$')
local ms, sequence = ARGV[3]:match('^(%d+)%-(%d+)$')
kept_ms, ms, kept_sequence, sequence = tonumber(kept_ms), tonumber(ms), tonumber(kept_sequence), tonumber(sequence)
if kept_ms > ms or (kept_ms == ms and kept_sequence >= sequence) then
  return {'OK', kept}
end
redis.call('HSET', state, 'start', ARGV[3])
redis.call('XTRIM', stream, 'MINID', ARGV[3])
keep(ARGV[3])
return {'OK', ARGV[3]}
