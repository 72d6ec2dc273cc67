-- Append one produced batch to a partition's stream, or say why not: all of it or nothing.
--
-- KEYS: the stream; a hash beside it, in the same slot: `incarnation` and `epoch` are the owner's (`claim.lua`),
--   `last` its last append as "EPOCH NUMBER ENTRY", with its first entry; `unproved` the same but for the entry, which
--   is the first one that was not proved when that append came: if it names another append than `last`, all before that
--   one were proved; `p:ID` what is known of a producer as "EPOCH FIRST LAST ENTRY;..." for its last batches, oldest
--   first: sequences, and the id of the batch's first entry.
-- ARGV: the caller's epoch; the greatest sequence of an id, and the greatest milliseconds; producer id (-1: none), its
--   epoch, its base sequence; the number of records; the topic's incarnation; the number of this append among those of
--   this epoch (-1: not numbered); epoch and number of the last append that is proved to be as durable as it should
--   be, by what the caller knows; then for each record its time ('': that of its id), the number of arguments that
--   follow, those.
-- Returns {word, detail}: OK or DUPLICATE with the first entry's id; FENCED with the owner's epoch; UNCLAIMED; STALE, a
--   later append is there; EPOCH, SEQUENCE; TYPE with that of the key; BEYOND with the stream's last id, after which
--   there is no room. A DUPLICATE writes too, so that WAIT after it says something; and the epoch, so that no earlier
--   owner appends behind what that proves.
--
-- Nothing can fail between two XADDs: ids rise, limits were judged by the caller, and memory is judged by Redis before
-- the first write of a script and not after. The first write is to the hash, so that a user who may not write it has
-- appended nothing when it is refused. Numbers are doubles: an id is handled as two, and milliseconds are below 10^15.
local BATCHES_KEPT, SEQUENCES, MILLISECONDS_CHARS_MAX = 5, 2147483648, 15
local stream, state = KEYS[1], KEYS[2]
local epoch, sequence_max, milliseconds_max = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local producer, producer_epoch, base, count = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

local incarnation, number = tonumber(ARGV[8]), tonumber(ARGV[9])
local proved_epoch, proved_number = tonumber(ARGV[10]), tonumber(ARGV[11])

local function whole(number)
  return string.format('%.0f', number)
end

local function duplicate(id)
  redis.call('HSET', state, 'asked', '1', 'epoch', ARGV[1])
  return {'DUPLICATE', id}
end

local claimed = tonumber(redis.call('HGET', state, 'incarnation') or '0')
if claimed > incarnation then
  return {'FENCED', redis.call('HGET', state, 'epoch')}
elseif claimed < incarnation then
  return {'UNCLAIMED', whole(claimed)}
end
local owner = redis.call('HGET', state, 'epoch')
if owner and tonumber(owner) > epoch then
  return {'FENCED', owner}
end
local kind = redis.call('TYPE', stream)['ok']
if kind ~= 'stream' and kind ~= 'none' then
  return {'TYPE', kind}
end
local before, unproved = number >= 0 and redis.call('HGET', state, 'last'), nil
if before then
  local its_epoch, its_number, id = before:match('^(%d+) (%d+) (%d+%-%d+)$')
  local at_epoch, at_number = tonumber(its_epoch), tonumber(its_number)
  if at_epoch == epoch and at_number == number then
    return duplicate(id)
  elseif at_epoch == epoch and at_number > number then
    return {'STALE', its_number}
  elseif at_epoch > proved_epoch or (at_epoch == proved_epoch and at_number > proved_number) then
    local noted = redis.call('HGET', state, 'unproved') or ''
    unproved = noted:match('^' .. its_epoch .. ' ' .. its_number .. ' (.*)$') or id
  end
end

local kept, final = {}, (base + count - 1) % SEQUENCES
local known = producer ~= '-1' and redis.call('HGET', state, 'p:' .. producer)
if known then
  local known_epoch, known_batches = known:match('^(%d+) (.*)$')
  if producer_epoch == tonumber(known_epoch) then
    local wanted = 0
    for first, last, id in known_batches:gmatch('(%d+) (%d+) (%d+%-%d+);') do
      if tonumber(first) == base and tonumber(last) == final then
        return duplicate(id)
      end
      kept[#kept + 1] = first .. ' ' .. last .. ' ' .. id .. ';'
      wanted = (tonumber(last) + 1) % SEQUENCES
    end
    if base ~= wanted then
      return {'SEQUENCE', whole(wanted)}
    end
  elseif producer_epoch < tonumber(known_epoch) then
    return {'EPOCH', known_epoch}
  elseif base ~= 0 then
    return {'SEQUENCE', '0'}
  end
end

local milliseconds, sequence, last = 0, 1, '0-0'
if kind == 'stream' then
  local info = redis.call('XINFO', 'STREAM', stream)
  for at = 1, #info, 2 do
    if info[at] == 'last-generated-id' then
      last = info[at + 1]
    end
  end
  local last_milliseconds, last_sequence = last:match('^(%d+)%-(%d+)$')
  if #last_milliseconds > MILLISECONDS_CHARS_MAX then
    return {'BEYOND', last}
  end
  milliseconds, sequence = tonumber(last_milliseconds), tonumber(last_sequence) + 1
end
if sequence > sequence_max then
  milliseconds, sequence = milliseconds + 1, 0
end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
if now > milliseconds then
  milliseconds, sequence = now, 0
end
if milliseconds + math.floor((sequence + count - 1) / (sequence_max + 1)) > milliseconds_max then
  return {'BEYOND', last}
end

redis.call('HSET', state, 'epoch', ARGV[1])
local first, at = whole(milliseconds) .. '-' .. whole(sequence), 12
for _ = 1, count do
  local told, size = ARGV[at], tonumber(ARGV[at + 1])
  local ms = whole(milliseconds)
  local id = ms .. '-' .. whole(sequence)
  if told == '' or told == ms then
    redis.call('XADD', stream, id, unpack(ARGV, at + 2, at + 1 + size))
  else
    redis.call('XADD', stream, id, 't', told, unpack(ARGV, at + 2, at + 1 + size))
  end
  at = at + 2 + size
  sequence = sequence + 1
  if sequence > sequence_max then
    milliseconds, sequence = milliseconds + 1, 0
  end
end
if producer ~= '-1' then
  kept[#kept + 1] = whole(base) .. ' ' .. whole(final) .. ' ' .. first .. ';'
  if #kept > BATCHES_KEPT then
    table.remove(kept, 1)
  end
  redis.call('HSET', state, 'p:' .. producer, whole(producer_epoch) .. ' ' .. table.concat(kept))
end
if number >= 0 then
  local this = whole(epoch) .. ' ' .. whole(number) .. ' '
  if unproved then
    redis.call('HSET', state, 'last', this .. first, 'unproved', this .. unproved)
  else
    redis.call('HSET', state, 'last', this .. first)
  end
end
return {'OK', first}
