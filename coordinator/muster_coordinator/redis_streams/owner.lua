-- Before each script that only a partition's owner may run (`server.py`): what anybody else is answered.
--
-- Returns {word, detail}: FENCED with the owner's epoch; UNCLAIMED; or nil: the caller of this incarnation and epoch is
-- the owner, as far as Redis knows.
local function refusal(state, incarnation, epoch)
  local claimed = tonumber(redis.call('HGET', state, 'incarnation') or '0')
  local owner = redis.call('HGET', state, 'epoch')
  if claimed > incarnation or (claimed == incarnation and owner and tonumber(owner) > epoch) then
    return {'FENCED', owner}
  elseif claimed < incarnation then
    return {'UNCLAIMED', ''}
  end
  return nil
end

