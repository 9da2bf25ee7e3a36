# needs: xmllint python3
# packages: libxml2-utils
cat > gen.py <<'PY'
import os
os.mkdir('feeds')
open('feed.xsd','w').write('''<?xml version="1.0"?><xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="feed"><xs:complexType><xs:sequence><xs:element name="item" maxOccurs="unbounded"><xs:complexType><xs:sequence><xs:element name="sku"><xs:simpleType><xs:restriction base="xs:string"><xs:pattern value="S[0-9]{4}"/></xs:restriction></xs:simpleType></xs:element><xs:element name="price" type="xs:decimal"/><xs:element name="state" minOccurs="0" type="xs:string"/></xs:sequence></xs:complexType></xs:element></xs:sequence></xs:complexType></xs:element></xs:schema>''')
for f in range(1,191):
    s='<?xml version="1.0" encoding="UTF-8"?>\n<feed>\n'
    for i in range(1,30):
        s+=f'  <item>\n    <sku>S{f:02d}{i:02d}</sku>\n'.replace(f'S{f:02d}{i:02d}',f'S{(f*30+i)%10000:04d}')
        p='12,50' if (f,i)==(88,14) else f'{i}.50'
        s+=f'    <price>{p}</price>\n    <state>{"failed" if i%9==0 else "ok"}</state>\n' + ('  </item>\n' if (f,i)!=(131,22) else '  </itme>\n')
    s+='</feed>\n'
    open(f'feeds/errors-feed-{f:03d}.xml','w').write(s)
PY
python3 gen.py
echo ==OUTPUT==
xmllint --noout --schema feed.xsd feeds/*.xml 2>&1
