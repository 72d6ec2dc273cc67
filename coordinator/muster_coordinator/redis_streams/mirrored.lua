-- List the consumer groups that `mirror.lua` has made at a partition's stream, a page at a time.
--
-- KEYS: the stream; the hash beside it. ARGV: the cluster's id; the topic's incarnation; where the page begins, '0' at
--   first; about how many fields of the hash to look at.
-- Returns {word, where the next page begins, fields}: OK, '0' when this was the last one, with names `g:NAME` and notes
--   in turn; or {FENCED | UNCLAIMED, '0', {}}.
local state = KEYS[2]
local claimed = tonumber(redis.call('HGET', state, 'incarnation') or '0')
if claimed > tonumber(ARGV[2]) then
  return {'FENCED', '0', {}}
elseif claimed < tonumber(ARGV[2]) or redis.call('HGET', state, 'cluster') ~= ARGV[1] then
  return {'UNCLAIMED', '0', {}}
end
local found = redis.call('HSCAN', state, ARGV[3], 'MATCH', 'g:*', 'COUNT', ARGV[4])
return {'OK', found[1], found[2]}
