# needs: groff ps2pdf-free route: groff -Tpdf, pdftotext
# packages: groff poppler-utils
cat > gen.py <<'PY'
import random
random.seed(13)
S=['The gateway','A replica','The scheduler','Each importer','The cache','One worker']; V=['rejected','retried','delayed','logged','returned','dropped']; O=['an error','a failed request','the timeout','a partial result','the batch','stale rows']; E=['until the operator intervened','and recovered within a minute','because the limit was reached','although no alarm was raised','as described in the previous chapter','before the deadline']
p=lambda n:' '.join(f'{random.choice(S)} {random.choice(V)} {random.choice(O)} {random.choice(E)}.' for _ in range(n))
o='.TL\nFailure Report for the Third Quarter\n.AU\nReliability Group\n.AB\n'+p(4)+'\n.AE\n'
for i,c in enumerate(['Introduction','Incidents','Error budget','Timeouts and retries','Root causes','Cost of failures','Recommendations','References'],1):
    o+=f'.NH 1\n{c}\n.PP\n{p(10)}\n'
    for j in range(1,4):
        o+=f'.NH 2\n{random.choice(S)[random.choice(S).find(" ")+1:].capitalize()} in week {i*3+j}\n.PP\n{p(8)}\n.PP\n{p(6)}\n'
    o+='.TS\nbox tab(;);\nl n n.\nservice;errors;failed %\n_\n'+''.join(f'{s};{random.randint(0,900)};{random.random()*3:.2f}\n' for s in ('api','billing','search','mail'))+'.TE\n'
open('r.ms','w').write(o)
PY
python3 gen.py; { groff -t -ms -Tpdf r.ms > r.pdf || { groff -t -ms -Tps r.ms > r.ps; ps2pdf r.ps r.pdf; }; } 2>groff.log
echo ==OUTPUT==
pdftotext -layout r.pdf - 2>&1
