-- What every script of signals begins with. KEYS: the roll, one hash, so that it is forgotten whole or not at all.
-- ARGV[1]: fresh random text.
--
-- The life of the server's memory is another one after a flush or an eviction (token), a restart (run_id), and a
-- fail-over (master_replid): whatever may have forgotten who holds a lease.
local roll = KEYS[1]
local info = redis.call('INFO', 'server', 'replication')
local run, reign = string.match(info, 'run_id:(%x+)'), string.match(info, 'master_replid:(%x+)')
local token = redis.call('HGET', roll, 'token')
if not token then
  token = ARGV[1]
  redis.call('HSET', roll, 'token', token, 'seq', '0')
  redis.call('PEXPIRE', roll, 3600000)
end
local function life()
  return token .. '.' .. string.sub(run or '', 1, 12) .. '.' .. string.sub(reign or '', 1, 12)
end
