-- ARGV[2…]: pairs of a node and the number of its heartbeat.
-- Marks the leases of those heartbeats as lapsed. A node that has sent another heartbeat since keeps its lease (trap 4).
for i = 2, #ARGV - 1, 2 do
  local field = 'node:' .. ARGV[i]
  local beat, last = string.match(redis.call('HGET', members, field) or '', '^(%d+) (%d+)$')
  if beat == ARGV[i + 1] then
    redis.call('HSET', members, field, '0 ' .. last)
  end
end
return generation()
