-- Read entries of a partition, with what the stream says of its ends at the same moment.
--
-- KEYS: the stream; the hash beside it. ARGV: the incarnation; where to begin, as XRANGE has it, or 'last' for the last
--   entry, 'last (ID' for the last one before that; how many entries at most; how many bytes, which the first entry
--   alone may exceed; where to end, as XRANGE has it; epoch and number of the last append that is known to be proved.
-- Returns {word, last id ever, kept start, first id if any entry is gone, last append, last id before what is not proved,
--   entries}: OK; or {FENCED | UNCLAIMED | TYPE, detail}. The kept start is the id at which DeleteRecords has put the
--   start, '' if it has not; the first id is '' if nothing was ever trimmed or deleted, '0-0' if nothing is left; the
--   last append is `last` of the hash (`append.lua`), '' if there is none; the last id before what is not proved is ''
--   if all is, '0-0' if there is none. Of each entry there is its id, how many texts follow, and these: names and values
--   in turn. In one list, because a list of lists costs the server half as much again.
local ENTRY_OVERHEAD, FIELD_OVERHEAD, STEP_MAX = 40, 10, 64
local stream, state = KEYS[1], KEYS[2]
local incarnation, from = tonumber(ARGV[1]), ARGV[2]
local entries_max, bytes_max, to = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local proved_epoch, proved_number = tonumber(ARGV[6]), tonumber(ARGV[7])

local claimed = tonumber(redis.call('HGET', state, 'incarnation') or '0')
if claimed > incarnation then
  return {'FENCED', redis.call('HGET', state, 'epoch')}
elseif claimed < incarnation then
  return {'UNCLAIMED', ''}
end
local start = redis.call('HGET', state, 'start') or ''
local kind = redis.call('TYPE', stream)['ok']
if kind == 'none' then
  return {'OK', '0-0', start, '', '', '', {}}
elseif kind ~= 'stream' then
  return {'TYPE', kind}
end

local told, info = redis.call('XINFO', 'STREAM', stream), {}
for at = 1, #told, 2 do
  info[told[at]] = told[at + 1]
end
local first = ''
local gone = info['entries-added'] - info['length']
if gone > 0 and (start == '' or tonumber(redis.call('HGET', state, 'gone') or '-1') ~= gone) then
  first = info['length'] > 0 and info['first-entry'][1] or '0-0'
end
local last, proved = redis.call('HGET', state, 'last') or '', ''
if last ~= '' then
  local epoch, number, unproved = last:match('^(%d+) (%d+) (%d+%-%d+)$')
  local at_epoch, at_number = tonumber(epoch), tonumber(number)
  if at_epoch > proved_epoch or (at_epoch == proved_epoch and at_number > proved_number) then
    local noted = redis.call('HGET', state, 'unproved') or ''
    unproved = noted:match('^' .. epoch .. ' ' .. number .. ' (.*)$') or unproved
    local before = redis.call('XREVRANGE', stream, '(' .. unproved, '-', 'COUNT', 1)
    proved = before[1] and before[1][1] or '0-0'
  end
end

-- Loops are counted by hand: they run for each entry of each Fetch, while no other command does.
local entries, filled = {}, 0
local function add(entry, parts, parted)
  entries[filled + 1], entries[filled + 2] = entry[1], parted
  filled = filled + 2
  for part = 1, parted do
    entries[filled + part] = parts[part]
  end
  filled = filled + parted
end

local before = from:match('^last ?(.*)$')
if before then
  for _, entry in ipairs(redis.call('XREVRANGE', stream, before ~= '' and before or '+', '-', 'COUNT', 1)) do
    add(entry, entry[2], #entry[2])
  end
  return {'OK', info['last-generated-id'], start, first, last, proved, entries}
end
local count, size, step = 0, 0, 1
while count < entries_max do
  local wanted = math.min(step, entries_max - count)
  local some = redis.call('XRANGE', stream, from, to, 'COUNT', wanted)
  local got = #some
  for at = 1, got do
    local parts = some[at][2]
    local parted = #parts
    size = size + ENTRY_OVERHEAD + parted * FIELD_OVERHEAD
    for part = 1, parted do
      size = size + #parts[part]
    end
    if size > bytes_max and count > 0 then
      return {'OK', info['last-generated-id'], start, first, last, proved, entries}
    end
    add(some[at], parts, parted)
    count = count + 1
  end
  if got < wanted then
    break
  end
  from, step = '(' .. some[got][1], math.min(2 * step, STEP_MAX)
end
return {'OK', info['last-generated-id'], start, first, last, proved, entries}
