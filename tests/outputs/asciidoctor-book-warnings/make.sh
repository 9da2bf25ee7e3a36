# needs: asciidoctor python3
# packages: asciidoctor
cat > gen.py <<'PY'
import random
random.seed(6)
w=[]
b='= Operations Handbook\n:toc:\n:doctype: book\n\n'
for c in range(1,71):
    b+=f'[#ch{c:02d}]\n== Chapter {c}: errors and failures\n\n'
    for s in range(1,4):
        b+=f'=== Section {c}.{s}\n\nSee <<ch{c+1 if c<70 else 1:02d}>>' + (f' and <<missing-{c}>>' if c%4==0 and s==2 else '') + f'.\n\n. First\n. Second\n{"5. Fifth" if s==3 and c%3==0 else ". Third"}\n\n'
        if c%5==0 and s==1: b+='===== Too deep\n\ntext\n\n'
        if c%6==0 and s==2: b+='[#ch01]\n.Title\nparagraph\n\n'
        if c==19 and s==2: b+='include::snippets/restore.sh[]\n\n'
        if c==23 and s==1: b+='----\nunterminated listing of a log: ERROR: connection refused\n----\n\n|===\n|a |b |c\n\n|1 |2\n|===\n\n'
open('book.adoc','w').write(b)
PY
python3 gen.py
cat > Makefile <<'M'
all: html man check
html:
	@echo "[1/3] html"
	asciidoctor --failure-level=ERROR --verbose -b html5 -o book.html book.adoc
man:
	@echo "[2/3] man page"
	@for s in $$(seq 1 45); do echo "  formatting part $$s ... 0 errors"; done
check:
	@echo "[3/3] links"
	@for s in $$(seq 1 45); do echo "  checking https://docs.example.com/errors/$$s ... 200"; done
M
echo ==OUTPUT==
make -k all 2>&1
