-- ARGV[2…]: the node, its beat, the lease and the time to forget in ms, the node's channel.
-- Enters the node on the roll and tells it what it has to have heard by then; on its channel, behind everything that was
-- told before, so that only an ear that hears gets a lease.
local node, beat, lease, forget, ear = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local function entry(b) return b .. ' ' .. string.format('%.0f', now) end
redis.call('HSET', roll, 'node:' .. node, entry(beat))
redis.call('PEXPIRE', roll, 3600000)

-- A silent node may be cut off and changing rows that it cannot tell us about: nobody gets a lease until it is back or
-- forgotten. If this server's clock leapt, a forgotten node may hold a lease: hence another life.
local whole = '1'
local fields = redis.call('HGETALL', roll)
for i = 1, #fields, 2 do
  local other = string.match(fields[i], '^node:(.+)$')
  if other and other ~= node then
    local b, last = string.match(fields[i + 1], '^(%d+) (%d+)$')
    local silent = now - tonumber(last)
    if silent < 0 then
      redis.call('HSET', roll, fields[i], entry(b))
    elseif silent > forget then
      redis.call('HDEL', roll, fields[i])
      token = ARGV[1]
      redis.call('HSET', roll, 'token', token)
    elseif silent > lease then
      whole = '0'
    end
  end
end
redis.call('SPUBLISH', ear, table.concat({'beat', life(), redis.call('HGET', roll, 'seq'), beat, whole}, ' '))
return life()
