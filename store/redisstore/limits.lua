-- GCRA by the server's time, in microseconds since 2026: small enough that fractions stay exact.
-- KEYS: the bucket. ARGV: microseconds until one token is back, the count, the cost.
local one, count, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local at = (tonumber(time[1]) - 1767225600) * 1000000 + tonumber(time[2])
local whole = one * count

-- If the clock was set back, the bucket does not refuse for longer than a full period.
local full = tonumber(redis.call('GET', KEYS[1]) or at)
full = math.min(math.max(full, at), at + whole)

local after = full + one * cost
local over = after - (at + whole)
if over > 0.01 then
  return {0, math.floor((at + whole - full) / one + 0.000001), math.ceil(over)}
end
if after > at then
  redis.call('SET', KEYS[1], string.format('%.3f', after), 'PX', math.ceil((after - at) / 1000) + 1000)
end
return {1, math.floor((at + whole - after) / one + 0.000001), 0}
