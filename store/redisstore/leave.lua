-- ARGV[2]: the node, which has given its leases up.
redis.call('HDEL', roll, 'node:' .. ARGV[2])
return life()
