-- Take a partition's stream for a topic's incarnation and its owner's epoch.
--
-- KEYS: the stream; the hash beside it. ARGV: the cluster's id; the incarnation, which is greater for a topic that was
--   made later under the same name; the owner's epoch; 'keep' if the stream is somebody else's.
-- Returns {word, detail}: OK; FENCED with the owner's epoch; CLUSTER with the id of the cluster that has it; TYPE.
--
-- A stream without a hash was written by somebody else, or Redis has lost its memory: it is taken as it is. One of an
-- earlier topic of this name is removed, if it is not to be kept, with what is known of its producers. Of one that is
-- kept the notes of `mirror.lua` stay, as the groups do that it has made there: they are taken away, or moved, as ours.
local NOTES_AT_ONCE = 1000
local stream, state = KEYS[1], KEYS[2]
local incarnation, epoch = tonumber(ARGV[2]), tonumber(ARGV[3])

local kind = redis.call('TYPE', stream)['ok']
if kind ~= 'stream' and kind ~= 'none' then
  return {'TYPE', kind}
end
local cluster = redis.call('HGET', state, 'cluster')
if cluster and cluster ~= ARGV[1] then
  return {'CLUSTER', cluster}
end
local claimed = tonumber(redis.call('HGET', state, 'incarnation') or '0')
local owner = redis.call('HGET', state, 'epoch')
if claimed > incarnation or (claimed == incarnation and owner and tonumber(owner) > epoch) then
  return {'FENCED', owner}
end
if cluster and claimed < incarnation then
  local notes, cursor = {}, ARGV[4] == 'keep' and '0'
  while cursor do
    local found = redis.call('HSCAN', state, cursor, 'MATCH', 'g:*', 'COUNT', NOTES_AT_ONCE)
    for at = 1, #found[2], 2 do
      notes[found[2][at]] = found[2][at + 1]
    end
    cursor = found[1] ~= '0' and found[1]
  end
  redis.call('DEL', state)
  for name, note in pairs(notes) do
    redis.call('HSET', state, name, note)
  end
  if ARGV[4] ~= 'keep' then
    redis.call('UNLINK', stream)
  end
end
redis.call('HSET', state, 'cluster', ARGV[1], 'incarnation', ARGV[2], 'epoch', ARGV[3])
return {'OK', ''}
