-- Write something, so that WAIT or WAITAOF behind this says whether all that was appended before is confirmed.
--
-- KEYS: the stream; the hash beside it, see `append.lua`. ARGV: the incarnation; the owner's epoch.
-- Returns {word, detail}: OK with `last` of the hash, '' if there is none; FENCED with the owner's epoch; UNCLAIMED.
--
-- The epoch is written too: no earlier owner appends behind this, so nothing of theirs is left unproved.
local state = KEYS[2]
local refused = refusal(state, tonumber(ARGV[1]), tonumber(ARGV[2]))
if refused then
  return refused
end
redis.call('HSET', state, 'asked', '1', 'epoch', ARGV[2])
return {'OK', redis.call('HGET', state, 'last') or ''}
