# needs: sqlite3
# packages: sqlite3
cat > q.sql <<'S'
.headers on
.mode csv
with recursive c(i) as (select 1 union all select i+1 from c where i<230)
select 90000+i as ticket_id, date('2025-01-01','+'||(i*7%300)||' days') as opened, case i%5 when 0 then 'error' when 1 then 'question' when 2 then 'failed delivery' else 'refund' end as category,
 case i%4 when 0 then 'ERROR: card declined, please help' when 1 then 'Parcel says "delivery failed"' when 2 then 'Exception on the invoice page' else 'Address changed' end as subject, i*37%9000/100.0 as amount,
 case i%3 when 0 then 'open' when 1 then 'closed' else 'failed' end as state, 'customer'||(i*13%211)||'@example.com' as email from c;
S
echo ==OUTPUT==
sqlite3 :memory: < q.sql 2>&1
