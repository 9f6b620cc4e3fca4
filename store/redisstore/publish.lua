-- ARGV[2…]: the node, the channel of signals, the signal.
-- Answers the life, the number of the signal, and each node that may hold a lease with its last beat.
local seq = redis.call('HINCRBY', roll, 'seq', 1)
redis.call('SPUBLISH', ARGV[3], table.concat({'signal', life(), string.format('%.0f', seq), ARGV[2], ARGV[4]}, ' '))
local answer = {life(), string.format('%.0f', seq)}
local fields = redis.call('HGETALL', roll)
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
