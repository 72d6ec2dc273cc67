-- Remove what is beside the stream of a deleted topic, and the stream if it is not somebody else's.
--
-- KEYS: the stream; the hash beside it. ARGV: the cluster's id; the incarnation of the deleted topic; 'keep' if the
--   stream is somebody else's.
-- Returns {word, ''}: OK; KEPT if it was never claimed by this cluster, or belongs to a topic that was made later.
local stream, state = KEYS[1], KEYS[2]
local claimed = redis.call('HGET', state, 'incarnation')
if redis.call('HGET', state, 'cluster') ~= ARGV[1] or not claimed or tonumber(claimed) > tonumber(ARGV[2]) then
  return {'KEPT', ''}
end
redis.call('DEL', state)
if ARGV[3] ~= 'keep' then
  redis.call('UNLINK', stream)
end
return {'OK', ''}
