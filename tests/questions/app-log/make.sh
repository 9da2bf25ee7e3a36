# needs: python3
# packages:
# A shop run as a discrete-event simulation; each service writes what happens to it.
cat > sim.py <<'PY'
import random, heapq, datetime
R=random.Random(40917)
T0=datetime.datetime(2024,3,14,5,58,0)
now=0.0; q=[]; n=0; out=[]
def at(dt,f,*a):
    global n; n+=1; heapq.heappush(q,(now+dt,n,f,a))
def log(lv,svc,msg,*more):
    t=T0+datetime.timedelta(seconds=now)
    th=R.choice(['main','http-nio-8080-exec-%d'%R.randint(1,16),'worker-%d'%R.randint(1,6)]) if svc[0].isupper() else 'pid:%d'%(1200+hash_(svc))
    out.append('%s %-5s [%s] %s: %s'%(t.strftime('%Y-%m-%d %H:%M:%S.')+'%03d'%(t.microsecond//1000),lv,th,svc,msg))
    for m in more: out.append('    '+m)
def hash_(s): return sum(map(ord,s))%700
hx=lambda k:''.join(R.choice('0123456789abcdef') for _ in range(k))
items={'SKU-1044':['walnut desk lamp',40],'SKU-2210':['garden hose 25m',25],'SKU-3307':['espresso grinder',9],'SKU-4120':['merino socks',300],'SKU-5981':['yoga mat',60],'SKU-6006':['cast-iron skillet',18],'SKU-7733':['travel adapter',120],'SKU-8150':['kids rain boots',33]}
users=['usr_'+hx(4) for _ in range(70)]
cities=['Lisbon','Utrecht','Graz','Turku','Brno','Leeds','Nantes','Bergen']
cache={}; pool=0; disk=71.0; ordn=88120; sess={}; failures=0
hosts=['app-eu-1','app-eu-2','app-us-1']
def arrive():
    u=R.choice(users); s='sess_'+hx(6)
    if u in sess: log('DEBUG','session-store','reusing %s for %s, idle %ds'%(sess[u],u,R.randint(4,1700)))
    else:
        sess[u]=s; log('DEBUG','session-store','created %s for %s from %s (%d live)'%(s,u,R.choice(cities),len(sess)))
    at(R.uniform(.1,3),browse,u,R.randint(1,4)); at(R.expovariate(1/60),arrive)
def browse(u,k):
    it=R.choice(list(items))
    if it in cache and cache[it]>now: log('DEBUG','catalog-cache','hit %s age %.1fs'%(it,R.uniform(0,60)))
    else:
        cache[it]=now+60; log('DEBUG','catalog-cache','miss %s, loaded from replica db-ro-%d in %dms'%(it,R.randint(1,3),R.randint(3,90)))
    log('INFO','api-gateway','GET /v2/products/%s 200 %dms user=%s host=%s'%(it,R.randint(8,240),u,R.choice(hosts)))
    if R.random()<.12: log('INFO','search-indexer','query "%s" returned %d hits in %dms'%(R.choice(['lamp','rain','grinder burr','socks wool','hose','skillet lid']),R.randint(0,40),R.randint(2,70)))
    if k>1: at(R.uniform(1,8),browse,u,k-1)
    elif R.random()<.55: at(R.uniform(1,9),order,u,it)
def order(u,it):
    global ordn
    ordn+=1; o='ORD-%d'%ordn; qty=R.choice([1,1,1,2,3]); amt=qty*R.choice([19.9,34.5,129.0,59.95])
    log('INFO','OrderService','placed %s for %s: %d x %s (%s), %.2f EUR'%(o,u,qty,it,items[it][0],amt))
    if R.random()<.15: log('INFO','CouponEngine',R.choice(['applied SPRING10 to %s, 10%% off'%o,'code WELCOME5 rejected for %s: already redeemed by this account'%o,'code FREESHIP ignored for %s: basket below minimum 40.00 EUR'%o]))
    at(.2,reserve,u,o,it,qty,amt)
def reserve(u,o,it,qty,amt):
    if items[it][1]<qty:
        log('WARN','inventory-sync','cannot reserve %d x %s for %s: %d left'%(qty,it,o,items[it][1])); log('INFO','OrderService','%s put on backorder'%o); return
    items[it][1]-=qty; log('INFO','inventory-sync','reserved %d x %s for %s, %d left'%(qty,it,o,items[it][1]))
    if items[it][1]<5: at(R.uniform(300,600),restock,it)
    at(R.uniform(.1,.6),pay,u,o,amt,1)
def restock(it):
    k=R.randint(30,80); items[it][1]+=k; log('INFO','inventory-sync','delivery booked in: +%d %s'%(k,it))
def pay(u,o,amt,attempt):
    global failures
    t='txn_'+hx(8); ms=R.randint(90,700)
    log('INFO','payment-gateway','authorizing payment %s for %s amount %.2f EUR attempt %d'%(t,o,amt,attempt))
    r=R.random()
    if amt>350: log('INFO','fraud-check','score %.2f for %s (%s)'%(R.uniform(.1,.6),o,u))
    if r<.82: log('INFO','payment-gateway','payment %s captured in %dms'%(t,ms)); at(1,ship,u,o)
    elif r<.88: log('WARN','payment-gateway','payment %s declined: insufficient funds'%t); log('INFO','mailer','queued template payment-failed for %s'%u)
    elif r<.93: log('WARN','payment-gateway','payment %s declined: 3-D Secure challenge abandoned'%t)
    elif attempt<3: log('WARN','payment-gateway','payment %s timed out after 5000ms, retrying'%t); at(5,pay,u,o,amt,attempt+1)
    else: log('ERROR','payment-gateway','payment %s gave up after %d attempts'%(t,attempt)); failures+=1
def ship(u,o):
    c=R.choice(['DHL','PostNord','GLS','Royal Mail']); log('INFO','ShippingLabelPrinter','label %s printed for %s via %s to %s'%('LBL'+hx(5).upper(),o,c,R.choice(cities)))
    log('INFO','mailer','queued template order-confirmation for %s'%u)
    if R.random()<.1: log('INFO','mailer','delivered order-confirmation to %s in %dms (relay mx%d.shopmail.example)'%(u,R.randint(100,900),R.randint(1,2)))
def gc():
    global disk
    disk+=R.uniform(0,.25)
    log('DEBUG','metrics','heap %d/%dMB, threads %d, open fds %d'%(R.randint(300,900),1024,R.randint(40,90),R.randint(200,500))); at(45,gc)
def dbpool():
    k=R.randint(2,18); log('DEBUG','db-pool','%d of 20 connections busy, longest %dms'%(k,R.randint(1,300)))
    if R.random()<.1: log('WARN','db-pool','slow query %dms: SELECT * FROM order_lines WHERE order_id = ? (ORD-%d)'%(R.randint(800,2500),ordn))
    at(R.uniform(25,50),dbpool)
def health():
    h=R.choice(hosts); log('DEBUG','api-gateway','health probe %s ok %dms'%(h,R.randint(1,9))); at(20,health)
def kafka():
    log('INFO','kafka-consumer','group shop-events partition %d lag %d'%(R.randint(0,7),R.randint(0,300))); at(R.uniform(30,60),kafka)
def clean():
    k=[u for u in list(sess) if R.random()<.2]
    for u in k: sess.pop(u)
    log('INFO','session-store','swept %d expired sessions'%len(k)); at(300,clean)
def img(): log('INFO','image-resizer','thumbnail %s.webp written, %dx%d, saved %d%%'%(R.choice(list(items)).lower(),R.choice([160,320,640]),R.choice([160,320,640]),R.randint(20,80))); at(R.expovariate(1/60),img)
def cron(): log('INFO','cron-runner','job %s finished in %.1fs'%(R.choice(['reindex-delta','price-feed','abandoned-cart-reminder','sitemap']),R.uniform(.4,30))); at(R.uniform(100,200),cron)
def login():
    r=R.random(); u=R.choice(users)
    if r<.8: log('INFO','AuthService','login ok for %s via %s'%(u,R.choice(['password','passkey','google'])))
    else: log('WARN','AuthService','login failed for %s: wrong password (%d of 5)'%(u,R.randint(1,4)))
    at(R.expovariate(1/25),login)
one=lambda t,*a: at(t,log,*a)
for f,d in((arrive,3),(gc,5),(dbpool,7),(health,2),(kafka,9),(clean,300),(img,40),(cron,60),(login,11)): at(d,f)
one(.01,'INFO','OrderService','starting build 4.18.2 (git 9be01d7) with profile prod-eu')
one(.2,'INFO','OrderService','Flyway migration V57__add_gift_message.sql applied in 412ms')
one(.4,'WARN','AuthService','signing key jwk-2023-11 is deprecated, rotate before 2024-04-01')
one(.6,'INFO','api-gateway','rate limiter: 120 requests/min per client, burst 30')
one(.8,'WARN','mailer','DKIM selector "mar24" has no TXT record yet; falling back to unsigned mail')
one(1.1,'INFO','fraud-check','model velocity-v7 loaded, threshold 0.85')
one(700,'WARN','payment-gateway','payment txn_5d21e07a declined: card expired 11/23')
one(905,'WARN','AuthService','account usr_c75e locked for 30 minutes after 5 failed logins','last address 203.0.113.77, country RO')
one(1110,'ERROR','ShippingLabelPrinter','label for ORD-88177 refused by carrier: postcode 1O45 XK does not match country NL')
one(1300,'WARN','image-resizer','skipping banner-easter.tiff: colour profile CMYK not supported')
one(1480,'ERROR','OrderService','could not persist ORD-88203','org.postgresql.util.PSQLException: ERROR: duplicate key value violates unique constraint "orders_idempotency_key"','  Detail: Key (idempotency_key)=(b7f2-19c0) already exists.','  at org.postgresql.core.v3.QueryExecutorImpl.receiveErrorResponse(QueryExecutorImpl.java:2676)')
one(1502,'INFO','inventory-sync','stocktake adjustment for SKU-6006: 3 pieces written off as damaged by forklift')
one(1890,'WARN','kafka-consumer','rebalance: member consumer-4 kicked from group shop-events, no heartbeat for 45s')
one(2011,'WARN','fraud-check','blocked ORD-88254: score 0.97, shipping to freight forwarder and 6 cards tried within an hour')
one(2300,'ERROR','payment-gateway','webhook from acquirer rejected: signature mismatch, clock skew of 412 seconds')
one(2450,'WARN','db-pool','replica db-ro-2 removed from rotation: replication lag 94s exceeds 60s')
one(2890,'INFO','db-pool','replica db-ro-2 back in rotation')
one(2702,'ERROR','mailer','bounce for usr_91fa: 552 mailbox full')
one(3005,'ERROR','cron-runner','job price-feed aborted: supplier CSV has 11 columns, expected 12 (missing vat_rate)')
one(3120,'INFO','CouponEngine','campaign SPRING10 paused by operator m.okafor: budget of 5000.00 EUR spent')
one(3333,'WARN','payment-gateway','refund rfd_77a0 for ORD-88131 held for manual approval: exceeds agent limit of 250.00 EUR')
one(3601,'WARN','metrics','partition /var/lib/shop at 91% used, oldest nightly dump removed to make space')
one(3777,'ERROR','search-indexer','segment _4q corrupted: checksum 0x5fe1 read, 0x88c0 wanted; rebuilding shard 3 from snapshot')
one(4020,'INFO','api-gateway','feature flag one-page-checkout turned off for 100% of traffic by l.bergstrom')
one(4190,'ERROR','payment-gateway','TLS handshake with acquirer-b.example failed: certificate valid until 2024-03-13')
one(4191,'WARN','payment-gateway','circuit breaker acquirer-b opened, routing everything through acquirer-a')
one(4444,'WARN','session-store','evicting 1200 oldest sessions: redis memory 512MB limit reached')
one(4700,'WARN','api-gateway','client 198.51.100.23 throttled: 611 requests in the last minute (user-agent scrapy/2.11)')
one(4980,'ERROR','OrderService','cancelled ORD-88301 automatically: gift message contained 2,048 characters, column holds 500')
one(5200,'INFO','cron-runner','daylight-saving check: jobs between 02:00 and 03:00 on 2024-03-31 will be skipped')
one(5391,'WARN','inventory-sync','warehouse scanner WS-12 offline since 07:11, counts for aisle F are stale')
one(5580,'ERROR','image-resizer','worker killed by the kernel: out of memory while decoding panorama-hero.png (18000x9000)')
one(5800,'INFO','OrderService','received SIGTERM, draining 14 in-flight requests')
one(5808,'WARN','OrderService','2 requests still running after grace period of 8s, closing sockets anyway')
while q and q[0][0]<5812:
    now,_,f,a=heapq.heappop(q); f(*a)
print('\n'.join(out))
PY
echo ==OUTPUT==
python3 sim.py
rm sim.py
