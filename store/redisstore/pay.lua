-- Ends the life: a node could not tell what it had changed, so that whatever was cached in this life may be out of date.
-- The node does not show on the roll by this: should its answer be lost, it is still silent.
token = ARGV[1]
redis.call('HSET', roll, 'token', token)
return life()
