# needs: python3
# packages:
# A small scheduler + kubelet simulation (5 nodes, 30 workloads); prints the events and pods as `kubectl get events,pods -o json` would.
cat > k.py <<'PY'
import random, json, datetime
R=random.Random(2207); T0=datetime.datetime(2025,2,18,9,0); hx=lambda k:''.join(R.choice('bcdfghjklmnpqrstvwxz2456789') for _ in range(k))
ts=lambda s:(T0+datetime.timedelta(seconds=s)).strftime('%Y-%m-%dT%H:%M:%SZ')
nodes={'node-%s'%x:dict(cpu=4000,mem=8192,img=set()) for x in ('amber','birch','cedar','dune','elder')}
W='web-store:6,checkout-api:4,payment-worker:4,search-index:3,thumbnailer:3,mail-relay:2,ledger-db:1,session-cache:2,invoice-pdf:2,geo-lookup:2,audit-sink:1,feature-flags:1,chat-bridge:2,price-oracle:2,loyalty-points:2,stock-sync:2,label-printer:1,ad-server:2,crawler:3,ml-ranker:2'
ev=[]; pods=[]
def event(t,kind,name,ns,typ,reason,msg,comp,count=1,host=None):
    ev.append((t,{'apiVersion':'v1','kind':'Event','metadata':{'name':'%s.%s'%(name,'%016x'%R.getrandbits(56)),'namespace':ns},'involvedObject':{'kind':kind,'name':name,'namespace':ns},'type':typ,'reason':reason,'message':msg,'count':count,'lastTimestamp':ts(t),'source':{'component':comp,**({'host':host} if host else {})}}))
def pod(name,ns,node,img,mem,phase,restarts=0,state=None,last=None,conds=None):
    pods.append({'apiVersion':'v1','kind':'Pod','metadata':{'name':name,'namespace':ns,'labels':{'app':name.rsplit('-',2)[0]}},'spec':{'nodeName':node,'containers':[{'name':'main','image':img,'resources':{'limits':{'memory':'%dMi'%mem}}}]},'status':{'phase':phase,**({'conditions':conds} if conds else {}),'containerStatuses':[{'name':'main','ready':phase=='Running' and not state,'restartCount':restarts,'state':state or {'running':{'startedAt':ts(R.randint(10,900))}},**({'lastState':last} if last else {})}]}})
odd={}
def start(t,w,ns,i):
    n='%s-%s-%s'%(w,H[w],hx(5)); mem=R.choice([128,256,512,1024]); img='registry.shop.example/%s:%s'%(w,V[w])
    fit=[x for x in nodes if nodes[x]['mem']>=mem+200 and nodes[x]['cpu']>=150]
    if not fit: event(t,'Pod',n,ns,'Warning','FailedScheduling','0/5 nodes are available: 5 Insufficient memory.','default-scheduler',3); pod(n,ns,None,img,mem,'Pending'); return
    x=max(fit,key=lambda k:nodes[k]['mem']); nodes[x]['mem']-=mem; nodes[x]['cpu']-=150
    event(t,'Pod',n,ns,'Normal','Scheduled','Successfully assigned %s/%s to %s'%(ns,n,x),'default-scheduler')
    if img not in nodes[x]['img']:
        d=R.uniform(.8,19); event(t+1,'Pod',n,ns,'Normal','Pulling','Pulling image "%s"'%img,'kubelet',host=x)
        if (w,i)==('geo-lookup',1): event(t+4,'Pod',n,ns,'Warning','Failed','Failed to pull image "%s": rpc error: code = Unknown desc = manifest for architecture arm64 not found in index'%img,'kubelet',6,x); pod(n,ns,x,img,mem,'Pending',0,{'waiting':{'reason':'ImagePullBackOff','message':'Back-off pulling image "%s"'%img}}); return
        nodes[x]['img'].add(img); event(t+1+d,'Pod',n,ns,'Normal','Pulled','Successfully pulled image "%s" in %.3fs'%(img,d),'kubelet',host=x)
    event(t+21,'Pod',n,ns,'Normal','Created','Created container main','kubelet',host=x); event(t+22,'Pod',n,ns,'Normal','Started','Started container main','kubelet',host=x)
    if R.random()<.25: event(t+40,'Pod',n,ns,'Warning','Unhealthy','Readiness probe failed: Get "http://10.42.%d.%d:8080/ready": dial tcp: connect: connection refused'%(R.randint(0,4),R.randint(2,250)),'kubelet',R.randint(1,9),x)
    o=ODD.get((w,i))
    if o: o(t,n,ns,x,img,mem)
    else: pod(n,ns,x,img,mem,'Running',R.choice([0]*9+[1]))
def oom(t,n,ns,x,img,mem): event(t+300,'Pod',n,ns,'Warning','BackOff','Back-off restarting failed container main in pod %s'%n,'kubelet',14,x); pod(n,ns,x,img,mem,'Running',9,{'waiting':{'reason':'CrashLoopBackOff','message':'back-off 5m0s restarting failed container=main'}},{'terminated':{'exitCode':137,'reason':'OOMKilled','finishedAt':ts(t+290)}})
def evict(t,n,ns,x,img,mem): event(t+400,'Pod',n,ns,'Warning','Evicted','The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 806Mi. Container main was using 5310Mi, request is 0.','kubelet',1,x); pod(n,ns,x,img,mem,'Failed')
def crash(t,n,ns,x,img,mem): pod(n,ns,x,img,mem,'Running',5,{'waiting':{'reason':'CrashLoopBackOff','message':'back-off 2m40s restarting failed container=main'}},{'terminated':{'exitCode':1,'reason':'Error','message':'panic: LEDGER_KEYRING must hold 32 bytes, got 31\n\ngoroutine 1 [running]:\nmain.mustLoadKeyring(...)\n','finishedAt':ts(t+99)}})
def liven(t,n,ns,x,img,mem): event(t+600,'Pod',n,ns,'Warning','Unhealthy','Liveness probe failed: deadlock suspected, no batch finished in 300s','kubelet',3,x); event(t+602,'Pod',n,ns,'Normal','Killing','Container main failed liveness probe, will be restarted','kubelet',1,x); pod(n,ns,x,img,mem,'Running',3)
def vol(t,n,ns,x,img,mem): event(t+80,'Pod',n,ns,'Warning','FailedAttachVolume','Multi-Attach error for volume "pvc-7d3e" Volume is already used by pod(s) audit-sink-old-0 on node-dune','attachdetach-controller',4); pod(n,ns,x,img,mem,'Pending',0,{'waiting':{'reason':'ContainerCreating'}})
def cfg(t,n,ns,x,img,mem): event(t+5,'Pod',n,ns,'Warning','Failed','Error: couldn\'t find key smtp-passphrase in Secret mail/relay-credentials','kubelet',22,x); pod(n,ns,x,img,mem,'Pending',0,{'waiting':{'reason':'CreateContainerConfigError','message':'see events'}})
def root(t,n,ns,x,img,mem): event(t+5,'Pod',n,ns,'Warning','Failed','Error: container has runAsNonRoot and image will run as uid 0','kubelet',8,x); pod(n,ns,x,img,mem,'Pending',0,{'waiting':{'reason':'CreateContainerConfigError','message':'see events'}})
def hook(t,n,ns,x,img,mem): event(t+30,'Pod',n,ns,'Warning','FailedPostStartHook','PostStartHook failed: warmup.sh exited 28, ranking model download stalled','kubelet',2,x); pod(n,ns,x,img,mem,'Running',2)
ODD={('payment-worker',2):oom,('thumbnailer',1):evict,('ledger-db',0):crash,('search-index',2):liven,('audit-sink',0):vol,('mail-relay',1):cfg,('label-printer',0):root,('ml-ranker',1):hook}
H={};V={}; t=0
for s in W.split(','):
    w,k=s.split(':'); H[w]=hx(9); V[w]='%d.%d.%d'%(R.randint(0,5),R.randint(0,30),R.randint(0,9)); ns={'mail-relay':'mail','ledger-db':'finance','payment-worker':'finance','crawler':'batch','ml-ranker':'batch'}.get(w,'shop')
    event(t,'Deployment',w,ns,'Normal','ScalingReplicaSet','Scaled up replica set %s-%s to %s'%(w,H[w],k),'deployment-controller')
    for i in range(int(k)): start(t+R.uniform(1,5),w,ns,i); t+=R.uniform(3,12)
N=lambda t,n,*a,**k: event(t,'Node',n,'default',*a,**k)
N(333,'node-cedar','Warning','SystemOOM','System OOM encountered, victim process: chromium, pid: 20817','kubelet')
N(412,'node-birch','Normal','NodeHasDiskPressure','Node node-birch status is now: NodeHasDiskPressure','kubelet')
N(505,'node-elder','Warning','Rebooted','Node node-elder has been rebooted, boot id: 5c1f-d07','kubelet')
N(700,'node-dune','Warning','ClockSkew','kernel reports ntp unsynchronised for 1900s','node-problem-detector')
event(610,'HorizontalPodAutoscaler','web-store','shop','Warning','FailedGetResourceMetric','failed to get cpu utilization: no metrics returned from resource metrics API','horizontal-pod-autoscaler',31)
event(640,'CronJob','nightly-prune','batch','Warning','MissSchedule','Missed scheduled time to start a job: Tue, 18 Feb 2025 02:30:00 +0000','cronjob-controller')
event(655,'Ingress','storefront','shop','Warning','Sync','Error obtaining TLS certificate: secret "storefront-wildcard" does not exist','ingress-controller',9)
event(677,'PersistentVolumeClaim','ledger-data','finance','Warning','ProvisioningFailed','storageclass.storage.k8s.io "fast-nvme" not found','persistentvolume-controller',40)
event(688,'ReplicaSet','crawler-canary','batch','Warning','FailedCreate','pods "crawler-canary-" is forbidden: exceeded quota: batch-limits, requested: pods=1, used: pods=5, limited: pods=5','replicaset-controller',12)
event(690,'Service','chat-bridge','shop','Warning','FailedToUpdateEndpointSlices','Error updating Endpoint Slices: skipping Pod for Service shop/chat-bridge: Node node-fir Not Found','endpoint-slice-controller',2)
ev.sort(key=lambda e:e[0])
print(json.dumps({'apiVersion':'v1','kind':'List','items':[e for _,e in ev]+pods,'metadata':{'resourceVersion':''}},indent=2))
PY
echo ==OUTPUT==
python3 k.py
