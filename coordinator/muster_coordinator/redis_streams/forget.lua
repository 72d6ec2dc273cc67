-- Remove what is beside the stream of a deleted topic, and the stream if it is not somebody else's.
--
-- KEYS: the stream; the hash beside it. ARGV: the cluster's id; the incarnation of the deleted topic; for a stream that
--   is somebody else's: 'keep', where a page of the hash begins ('0' at first), and about how many fields it has.
-- Returns {word, detail}: OK; MORE with where the next page begins, and the hash is still there; KEPT if it was never
--   claimed by this cluster, or belongs to a topic that was made later.
--
-- A stream that stays loses the consumer groups that `mirror.lua` has made, but those that have consumers: they are
-- somebody else's by now. Nothing else of it is touched.
local stream, state = KEYS[1], KEYS[2]
local claimed = redis.call('HGET', state, 'incarnation')
if redis.call('HGET', state, 'cluster') ~= ARGV[1] or not claimed or tonumber(claimed) > tonumber(ARGV[2]) then
  return {'KEPT', ''}
end
if ARGV[3] ~= 'keep' then
  redis.call('DEL', state)
  redis.call('UNLINK', stream)
  return {'OK', ''}
end
local found = redis.call('HSCAN', state, ARGV[4], 'MATCH', 'g:*', 'COUNT', ARGV[5])
if #found[2] > 0 and redis.call('TYPE', stream)['ok'] == 'stream' then
  for at = 1, #found[2], 2 do
    local group = found[2][at]:sub(3)
    local consumers = redis.pcall('XINFO', 'CONSUMERS', stream, group)
    if not consumers.err and #consumers == 0 then
      redis.call('XGROUP', 'DESTROY', stream, group)
    elseif consumers.err and not consumers.err:find('NOGROUP', 1, true) then
      return consumers
    end
  end
end
if found[1] ~= '0' then
  return {'MORE', found[1]}
end
redis.call('DEL', state)
return {'OK', ''}
