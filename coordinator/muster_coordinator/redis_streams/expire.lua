-- Forget producers of a partition that have appended nothing for long: each takes memory, and a new life of a client is
-- a new producer.
--
-- KEYS: the stream; the hash beside it, see `append.lua`, in which `looked` is where the next look begins. ARGV: the
--   incarnation; the owner's epoch; the milliseconds of silence, by the clock that gives the ids; how many to look at.
-- Returns {word, detail}: OK with how many are forgotten; FENCED with the owner's epoch; UNCLAIMED.
local DELETED_AT_ONCE = 1000
local state = KEYS[2]
local refused = refusal(state, tonumber(ARGV[1]), tonumber(ARGV[2]))
if refused then
  return refused
end
local time = redis.call('TIME')
local oldest = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) - tonumber(ARGV[3])
local from = redis.call('HGET', state, 'looked') or '0'
local found = redis.call('HSCAN', state, from, 'MATCH', 'p:*', 'COUNT', ARGV[4])
local gone = {}
for at = 1, #found[2], 2 do
  local last = found[2][at + 1]:match('(%d+)%-%d+;$')
  if last and tonumber(last) < oldest then
    gone[#gone + 1] = found[2][at]
  end
end
if found[1] ~= from then
  redis.call('HSET', state, 'looked', found[1])
end
for at = 1, #gone, DELETED_AT_ONCE do
  redis.call('HDEL', state, unpack(gone, at, math.min(at + DELETED_AT_ONCE - 1, #gone)))
end
return {'OK', tostring(#gone)}
