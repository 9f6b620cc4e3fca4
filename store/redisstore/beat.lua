-- ARGV[2…]: the node, the number of its heartbeat, the lease and the time until a silent node is removed in ms, the node's channel.
-- Writes the node's heartbeat to the member list and sends the heartbeat back on the node's channel with the number of the
-- last signal. It arrives behind all earlier messages, so that only a node that receives them gets a lease.
local node, beat, lease, forget, channel = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local function entry(b) return b .. ' ' .. string.format('%.0f', now) end
redis.call('HSET', members, 'node:' .. node, entry(beat))
redis.call('PEXPIRE', members, 3600000)

-- A silent node may be cut off and still change rows: no node gets a lease until it is back or removed. If this server's
-- clock jumped, a removed node may still hold a lease: so its removal starts a new generation.
local complete = '1'
local fields = redis.call('HGETALL', members)
for i = 1, #fields, 2 do
  local other = string.match(fields[i], '^node:(.+)$')
  if other and other ~= node then
    local b, last = string.match(fields[i + 1], '^(%d+) (%d+)$')
    local silent = now - tonumber(last)
    if silent < 0 then
      redis.call('HSET', members, fields[i], entry(b))
    elseif silent > forget then
      redis.call('HDEL', members, fields[i])
      token = ARGV[1]
      redis.call('HSET', members, 'token', token)
    elseif silent > lease then
      complete = '0'
    end
  end
end
redis.call('SPUBLISH', channel, table.concat({'beat', generation(), redis.call('HGET', members, 'seq'), beat, complete}, ' '))
return generation()
