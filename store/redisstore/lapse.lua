-- ARGV[2…]: a node and its beat, again and again.
-- Notes that the lease of those beats has run out; a node that has beaten since keeps its own (trap 4).
for i = 2, #ARGV - 1, 2 do
  local field = 'node:' .. ARGV[i]
  local beat, last = string.match(redis.call('HGET', roll, field) or '', '^(%d+) (%d+)$')
  if beat == ARGV[i + 1] then
    redis.call('HSET', roll, field, '0 ' .. last)
  end
end
return life()
