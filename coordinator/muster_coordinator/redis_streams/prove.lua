-- Write something, so that WAIT or WAITAOF behind this says whether all that was appended before is confirmed.
--
-- KEYS: the stream; the hash beside it, see `append.lua`. ARGV: the incarnation; the owner's epoch.
-- Returns {word, detail}: OK with `last` of the hash, '' if there is none; FENCED with the owner's epoch; UNCLAIMED.
--
-- The epoch is written too: no earlier owner appends behind this, so nothing of theirs is left unproved.
local state = KEYS[2]
local incarnation, epoch = tonumber(ARGV[1]), tonumber(ARGV[2])

local claimed = tonumber(redis.call('HGET', state, 'incarnation') or '0')
local owner = redis.call('HGET', state, 'epoch')
if claimed > incarnation or (claimed == incarnation and owner and tonumber(owner) > epoch) then
  return {'FENCED', owner}
elseif claimed < incarnation then
  return {'UNCLAIMED', ''}
end
redis.call('HSET', state, 'asked', '1', 'epoch', ARGV[2])
return {'OK', redis.call('HGET', state, 'last') or ''}
