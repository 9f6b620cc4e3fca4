-- ARGV[2…]: the node, the channel of signals, the signal.
-- Returns the generation, the number of the signal, and each node that may hold a lease with the number of its last heartbeat.
local seq = redis.call('HINCRBY', members, 'seq', 1)
redis.call('SPUBLISH', ARGV[3], table.concat({'signal', generation(), string.format('%.0f', seq), ARGV[2], ARGV[4]}, ' '))
local answer = {generation(), string.format('%.0f', seq)}
local fields = redis.call('HGETALL', members)
for i = 1, #fields, 2 do
  local node = string.match(fields[i], '^node:(.+)$')
  if node then
    local beat = string.match(fields[i + 1], '^(%d+) ')
    if beat ~= '0' then
      answer[#answer + 1] = node
      answer[#answer + 1] = beat
    end
  end
end
return answer
