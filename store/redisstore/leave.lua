-- ARGV[2]: the node. It has given up its lease before.
redis.call('HDEL', members, 'node:' .. ARGV[2])
return generation()
