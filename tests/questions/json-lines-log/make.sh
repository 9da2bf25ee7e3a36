# needs: python3
# packages:
# A bike-sharing operator as a discrete-event simulation, logging JSON lines with nested fields.
cat > sim.py <<'PY'
import random, heapq, datetime, json
R=random.Random(7781); T0=datetime.datetime(2025,6,2,6,30); now=0.0;q=[];n=0
hx=lambda k:''.join(R.choice('0123456789abcdef') for _ in range(k))
def at(dt,f,*a):
    global n; n+=1; heapq.heappush(q,(now+dt,n,f,a))
def log(level,service,msg,**kw):
    t=(T0+datetime.timedelta(seconds=now)).isoformat(timespec='milliseconds')+'Z'
    print(json.dumps({'ts':t,'level':level,'service':service,'msg':msg,**kw},separators=(',',':'),ensure_ascii=False))
names='Harbour Steps,Old Mill,Université Nord,Kastanjelaan,Cathedral Square,Tram Depot,Fish Market,Botanic Garden,Stadium West,Quai Voltaire,Science Park,Bürgerplatz'.split(',')
st={'st_%02d'%(i+11):dict(name=x,docks=R.choice([12,16,24]),bikes=[]) for i,x in enumerate(names)}
bikes={}
for s in st:
    for _ in range(R.randint(3,9)):
        b='bk_'+hx(4); bikes[b]=dict(soc=R.randint(25,100),km=R.randint(200,9000)); st[s]['bikes'].append(b)
riders=['rdr_'+hx(5) for _ in range(90)]
def S(s): return {'id':s,'name':st[s]['name']}
def unlock():
    r=R.choice(riders); s=R.choice(list(st)); B=st[s]['bikes']
    if not B: log('warn','rider-app','no bike available',rider=r,station=S(s),shown_alternatives=[x for x in st if st[x]['bikes']][:2])
    else:
        b=max(B,key=lambda b:bikes[b]['soc'])
        if bikes[b]['soc']<8: log('warn','dock-controller','unlock refused, charge too low',rider=r,bike={'id':b,'soc':bikes[b]['soc']},station=S(s))
        elif R.random()<.03: log('error','dock-controller','latch motor stalled',dock={'station':s,'slot':R.randint(1,st[s]['docks']),'current_ma':R.randint(900,1400)},retry=True); 
        else:
            B.remove(b); tr='trip_'+hx(6); log('info','dock-controller','bike unlocked',rider=r,trip=tr,bike={'id':b,'soc':bikes[b]['soc'],'km':bikes[b]['km']},station=S(s),latency_ms=R.randint(80,900))
            at(R.uniform(240,1800),dockin,r,b,tr,s,now)
            if R.random()<.4: at(R.uniform(60,200),ping,b,tr)
    at(R.expovariate(1/26),unlock)
def ping(b,tr):
    log('debug','telemetry-ingest','position',bike=b,trip=tr,gps={'lat':round(51+R.random()/20,5),'lon':round(4.4+R.random()/20,5),'sats':R.randint(4,13)},speed_kmh=round(R.uniform(0,27),1))
def dockin(r,b,tr,s0,t0):
    s=R.choice(list(st)); km=R.uniform(.8,7)
    if len(st[s]['bikes'])>=st[s]['docks']: log('warn','rider-app','station full, rider redirected',rider=r,station=S(s)); s=min(st,key=lambda x:len(st[x]['bikes']))
    bikes[b]['soc']=max(2,bikes[b]['soc']-int(km*4)); bikes[b]['km']+=int(km); st[s]['bikes'].append(b); m=int((now-t0)/60)
    log('info','dock-controller','bike returned',rider=r,trip=tr,bike={'id':b,'soc':bikes[b]['soc']},station=S(s),minutes=m)
    at(1.5,charge,r,tr,m)
    if bikes[b]['soc']<20: at(4,swap,b,s)
    if R.random()<.06: log('info','rider-app','rating left',rider=r,trip=tr,stars=R.randint(2,5),tags=R.sample(['clean','fast','heavy','soft tyre','loud chain','wobbly saddle'],2))
def charge(r,tr,m):
    c=max(0,m-10)*18+100; pid='pay_'+hx(7)
    x=R.random()
    if x<.9: log('info','BillingWorker','ride charged',rider=r,trip=tr,payment={'id':pid,'cents':c,'method':R.choice(['card','wallet','monthly pass'])})
    elif x<.97: log('warn','BillingWorker','payment failed',rider=r,trip=tr,payment={'id':pid,'cents':c,'reason':R.choice(['insufficient_funds','issuer_unavailable','do_not_honor'])},next_try_min=30)
    else: log('info','BillingWorker','discount applied',rider=r,trip=tr,voucher=R.choice(['RAINYDAY','NEWBIE','COMMUTE25']),cents_off=R.randint(50,300))
def swap(b,s):
    log('info','BatterySwapPlanner','swap scheduled',bike={'id':b,'soc':bikes[b]['soc']},station=S(s),van=R.choice(['van-1','van-2','van-3'])); at(R.uniform(600,1500),swapped,b)
def swapped(b):
    bikes[b]['soc']=100; log('info','BatterySwapPlanner','battery exchanged',bike={'id':b,'soc':100},pack='PK-'+hx(5).upper(),minutes=R.randint(3,14))
def hb():
    s=R.choice(list(st)); log('debug','station-gateway','heartbeat',station=s,uptime_h=R.randint(4,900),modem={'rssi':-R.randint(55,110),'net':R.choice(['LTE-M','NB-IoT'])},bikes=len(st[s]['bikes'])); at(R.uniform(60,90),hb)
def rebalance():
    a=max(st,key=lambda x:len(st[x]['bikes'])); b=min(st,key=lambda x:len(st[x]['bikes']))
    log('info','FleetRebalancer','move proposed',from_station=S(a),to_station=S(b),count=(len(st[a]['bikes'])-len(st[b]['bikes']))//2,score=round(R.random(),3)); at(240,rebalance)
def api(): log('debug','api-edge','request',method=R.choice(['GET','GET','POST']),path=R.choice(['/v3/stations','/v3/me','/v3/trips','/v3/vouchers']),status=R.choice([200]*12+[401,404,429]),ms=R.randint(4,300),region=R.choice(['eu-west','eu-north'])); at(R.expovariate(1/60),api)
def weather(): log('info','demand-forecast','model refreshed',inputs={'temp_c':round(R.uniform(12,24),1),'rain_mm':round(R.uniform(0,2),1)},expected_trips=R.randint(150,420)); at(600,weather)
one=lambda t,*a,**k: at(t,lambda: log(*a,**k))
for f,d in((unlock,1),(hb,2),(rebalance,120),(api,1.3),(weather,3)): at(d,f)
one(.1,'info','station-gateway','started',version='2.31.0',commit='e41f0bb',config={'mqtt':'broker-a.pedal.example:8883','qos':1})
one(.5,'warn','BillingWorker','configuration value unknown',key='overtime_grace_mins',hint='did you mean overtime_grace_minutes',using_default=10)
one(12,'info','BillingWorker','tariff loaded',tariff={'unlock_cents':100,'minute_cents':18,'cap_day_cents':1450},source='tariffs-2025-06.yaml')
one(610,'error','telemetry-ingest','message dropped',bike='bk_unknown',err={'type':'SchemaMismatch','detail':'field gps.hdop is a string since lock firmware 5.2','count':41})
one(777,'warn','fraud-guard','rider suspended',rider='rdr_0f3ac',reason='three bicycles opened within ninety seconds from phones 40 km apart',reviewer=None)
one(940,'error','dock-controller','slot disabled',dock={'station':'st_14','slot':7},cause={'code':'E-LATCH-22','text':'water ingress detected by moisture sensor'},ticket='MNT-3302')
one(1300,'warn','rider-support','complaint received',rider='rdr_a21be',trip='trip_00c9d1',text='The brakes squealed and then the rear one did nothing at all going down the hill')
one(1333,'info','rider-support','bike quarantined',bike={'id':'bk_7e11','soc':54},by='agent nwachukwu',follow_up='workshop inspection of rear brake cable')
one(1710,'error','BillingWorker','charge reversed',rider='rdr_5be02',payment={'id':'pay_19ffa0c','cents':8640},reason='trip left open for eight hours after dock sensor missed the return')
one(2100,'warn','station-gateway','clock drift corrected',station='st_17',offset_ms=-90211,ntp='time.pedal.example')
one(2222,'info','FleetRebalancer','move cancelled',from_station={'id':'st_19','name':'Stadium West'},why={'kind':'event','text':'football match, access road closed by police until 22:00'})
one(2600,'error','station-gateway','certificate refused',station='st_21',tls={'subject':'CN=st_21','issuer':'Pedal Device CA 1','error':'issuer revoked on 2025-05-30'})
one(2750,'warn','BatterySwapPlanner','pack retired',pack='PK-0D4E1',cycles=812,health_pct=61,note='swelling seen by technician, sent to hazardous waste')
one(3030,'error','demand-forecast','model rollback',from_version='gbm-2025-06-01',to_version='gbm-2025-05-18',cause='predicted 0 trips for every station after holiday table was empty')
one(3300,'info','admin-console','permission granted',actor='h.lindqvist',subject='t.moreau',role='tariff-editor',expires='2025-06-09')
one(3456,'info','rider-support','complaint received',rider='rdr_77e0b',trip='trip_a91c44',text='Le vélo était bloqué dans la borne et la serrure ne s\'ouvrait pas',lang='fr')
one(3555,'warn','rider-app','push notifications delayed',provider='apns',queued=18233,oldest_s=940,cause='provider answers 503')
one(3800,'error','telemetry-ingest','partition paused',topic='bike.position',partition=11,err={'type':'OffsetOutOfRange','detail':'consumer fell behind retention of 6h'})
one(4050,'info','geofence','bike outside service area',bike={'id':'bk_c0de','soc':33},gps={'lat':51.0991,'lon':4.6123},zone='Dijkwater ferry landing',alarm='silent')
one(4300,'error','dock-controller','firmware update failed',station='st_13',image='dock-fw-5.3.1.bin',err={'stage':'verify','detail':'sha256 differs from manifest, flash bank B erased'})
one(4505,'warn','api-edge','token rejected',client='partner-metro-pass',why='audience claim names staging',ip='192.0.2.44')
one(4700,'info','BillingWorker','invoice exported',customer='Gemeente Oosterdam',period='2025-05',rides=9120,total_cents=3811240)
one(4888,'error','BillingWorker','payment failed',rider='rdr_c44d9',trip='trip_f1f0aa',payment={'id':'pay_e00d551','cents':1990,'reason':'card_reported_stolen'},next_try_min=None)
one(5100,'warn','station-gateway','running on backup battery',station='st_16',volts=11.4,since='07:31',grid='feeder outage reported by utility')
one(5390,'fatal','FleetRebalancer','solver stopped',err={'type':'Infeasible','detail':'van capacity constraint contradicts depot minimum of 14'},iterations=20000)
one(5600,'info','admin-console','maintenance window announced',target='rider-app',start='2025-06-04T01:00Z',minutes=45,reason='database major upgrade')
one(5880,'warn','telemetry-ingest','duplicate device id',bike='bk_3a9f',locks=['LK-88121','LK-90477'],note='lock swapped at workshop without re-pairing')
while q and q[0][0]<6000:
    now,_,f,a=heapq.heappop(q); f(*a)
PY
echo ==OUTPUT==
python3 sim.py
rm sim.py
