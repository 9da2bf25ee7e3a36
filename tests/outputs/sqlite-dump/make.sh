# needs: sqlite3 python3
# packages: sqlite3
cat > load.py <<'PY'
import random, sqlite3
random.seed(11)
c=sqlite3.connect('queue.db')
c.executescript('''CREATE TABLE workers(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, started TEXT);
CREATE TABLE jobs(id INTEGER PRIMARY KEY, kind TEXT NOT NULL, state TEXT NOT NULL CHECK(state IN ('queued','running','done','failed')), error TEXT, attempts INT DEFAULT 0, worker INT REFERENCES workers(id));
CREATE TABLE job_log(job INT REFERENCES jobs(id), at TEXT, level TEXT, message TEXT);
CREATE TABLE settings(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE VIEW failed_jobs AS SELECT kind, count(*) n, max(error) last_error FROM jobs WHERE state='failed' GROUP BY kind;
CREATE INDEX jobs_state ON jobs(state);
CREATE TRIGGER jobs_ai AFTER INSERT ON jobs BEGIN INSERT INTO job_log VALUES(new.id,'2025-11-02','info','created '||new.kind); END;''')
for i in range(1,9): c.execute('insert into workers values(?,?,?)',(i,f'worker-{i}',f'2025-11-02 0{i}:00:00'))
E=['ValueError: bad sku','TimeoutError: read timed out','ERROR: connection refused by mail relay',"KeyError: 'total'",'FATAL: out of memory']
for i in range(1,261):
    s=random.choice(['done']*6+['failed','queued','running'])
    c.execute('insert into jobs values(?,?,?,?,?,?)',(i,random.choice(['invoice','mail','thumbnail','export']),s,random.choice(E) if s=='failed' else None,random.randint(0,3),random.randint(1,8)))
    if s=='failed': c.execute('insert into job_log values(?,?,?,?)',(i,'2025-11-02','error',f'job {i} failed; giving up'))
for k in ('retry.limit','retry.delay','mail.from','error.page'): c.execute('insert into settings values(?,?)',(k,'default'))
c.commit()
PY
python3 load.py >/dev/null 2>&1
echo ==OUTPUT==
sqlite3 queue.db .dump 2>&1
