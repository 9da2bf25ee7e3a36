# needs: python3 sqlite3
# packages:
# A hospital helpdesk: tickets arrive, queue for three teams and are worked off (simulation); exported by sqlite3 as CSV.
cat > h.py <<'PY'
import random, sqlite3, datetime, heapq
R=random.Random(31337); T0=datetime.datetime(2024,9,2,7,0)
dep='Radiology,Pharmacy,Maternity Ward,Emergency,Billing Office,Kitchen,Physiotherapy,Blood Bank,Night Reception,Human Resources'.split(',')
ppl='Amara Diallo,Tom Verbeek,Ines Carvalho,Piotr Zając,Lena Brandt,Yusuf Kaya,Mei-Ling Chow,Jorge Peña,Sanne de Wit,Olu Adeyemi,Katrin Hübner,Rafael Souza'.split(',')
dev=['LaserJet-4F','label printer ZD-12','nurse call panel','thin client TC-%d'%R.randint(10,99),'badge reader B2','VoIP handset 4471','infusion cart tablet','scanner DS-530']
com=[('Hardware','{d} offline','power cycled and reseated cable'),('Hardware','{d} makes grinding noise','roller replaced from stock'),('Hardware','paper jam in {d}','removed torn sheet'),('Account','password forgotten','reset after identity check by phone'),('Account','account locked after holidays','unlocked, explained lock policy'),
('Network','Wi-Fi drops in corridor','access point channel changed'),('Network','{d} has no network','switch port re-enabled'),('Software','MedChart slow when opening notes','cleared local cache'),('Software','LabView asks for update','update pushed overnight'),('Software','cannot open attachment','installed viewer'),
('Access','new colleague needs shared folder','group membership added after manager approval'),('Access','badge does not open door','badge re-encoded'),('Hardware','monitor flickers','swapped DisplayPort cable'),('Telephony','{d} has echo','gain lowered'),('Software','printer missing after login','mapped by policy again')]
one={14:('Network','Telemetry beds 3 to 9 silent','loop caused by a cleaner plugging both ends of one patch lead into the wall','Emergency','Critical'),
37:('Software','Allergy banner absent on charts','vendor hotfix 9.4.1b withdrawn, banner hidden when surname has apostrophe','Pharmacy','Critical'),
61:('Security','Invoice e-mail asked for gift cards','sender domain blocked, two recipients had replied, credentials renewed','Billing Office','High'),
88:('Hardware','Fridge temperature graph flat','probe had fallen behind the shelf, samples from Tuesday discarded','Blood Bank','Critical'),
109:('Account','Leaver still able to log in','termination form had been filed under maiden name','Human Resources','High'),
133:('Telephony','Switchboard sends callers to mortuary','holiday rota imported with columns swapped','Night Reception','High'),
158:('Hardware','Tablet swollen and warm','lithium cell disposed of as hazardous waste, drawer scorched','Physiotherapy','High'),
182:('Software','Diet orders for fasting patients','kosher flag overwritten by nightly merge with supplier menu','Kitchen','Normal'),
207:('Security','USB stick found in car park','sandboxed, contained choir recordings only','Night Reception','Normal'),
231:('Network','MRI images arrive after an hour','duplex mismatch on uplink left by contractor','Radiology','High'),
250:('Access','Consultant opened neighbour\'s record','audit trail handed to privacy officer','Maternity Ward','High'),
277:('Software','Twins given same patient number','registration retried after timeout, merged by hand and wristbands reprinted','Maternity Ward','Critical'),
301:('Hardware','Pneumatic tube swallowed capsule','found by plumber between floors 2 and 3, diverter motor burnt out','Pharmacy','Normal'),
326:('Billing','Sick pay counted twice for August','payroll export had been run with summer-time offset','Human Resources','Normal'),
349:('Network','Guest portal shows German only','translation file truncated by disk quota','Night Reception','Low'),
372:('Software','Dose calculator rounds down','decimal comma read as thousands separator, disabled for children under 10 kg','Pharmacy','Critical'),
398:('Hardware','Badge printer prints ghosts','ribbon installed upside down','Human Resources','Low'),
421:('Security','Screens unlocked in waiting room','timeout policy excluded kiosks by mistake','Emergency','High'),
444:('Telephony','Pager messages cut off','gateway limits text to 70 characters when an emoji is present','Emergency','High'),
466:('Access','Robot vacuum triggers alarm','motion sensor zone redrawn','Kitchen','Low')}
db=sqlite3.connect('h.db'); db.execute('create table t ("Ticket Number" text,"Opened At" text,"Requester Name" text,"Requesting Department" text,"Category" text,"Short Description" text,"Affected Device" text,"Priority" text,"Assigned Technician" text,"Minutes To Close" int,"Resolution Notes" text,"Satisfaction Score" int)')
t=0; tech=[(0,x) for x in ('B. Osei','F. Lindgren','S. Rao')]; heapq.heapify(tech)
for i in range(480):
    t+=R.expovariate(1/22); d=R.choice(dev)
    if i in one: c,s,r,dp,p=one[i]; w=R.randint(60,600)
    else: c,s,r=R.choice(com); dp=R.choice(dep); p=R.choice(['Low','Normal','Normal','High']); w=R.randint(4,70)
    f,who=heapq.heappop(tech); end=max(f,t)+w; heapq.heappush(tech,(end,who))
    db.execute('insert into t values (?,?,?,?,?,?,?,?,?,?,?,?)',('INC%06d'%(20417+i*3),(T0+datetime.timedelta(minutes=t)).strftime('%Y-%m-%d %H:%M'),R.choice(ppl),dp,c,s.format(d=d),d if '{d}' in s or R.random()<.5 else None,p,who,int(end-t),r,R.choice([None,3,4,5])))
db.commit()
PY
python3 h.py
echo ==OUTPUT==
sqlite3 -csv -header h.db 'select * from t'
