# needs: mvn javac
# packages: maven 3.8.7 libsurefire-java 2.22.3 junit4 maven-debian-helper openjdk-17-jdk-headless
set -u
python3 - <<'P'
import os
mods = ["inventory-model", "inventory-store", "inventory-web", "inventory-jobs"]
P = '<?xml version="1.0"?>\n<project xmlns="http://maven.apache.org/POM/4.0.0">\n<modelVersion>4.0.0</modelVersion>\n'
open("pom.xml", "w").write(P + "<groupId>com.example.inventory</groupId><artifactId>inventory</artifactId><version>2.4.0-SNAPSHOT</version><packaging>pom</packaging><name>Inventory</name>\n<modules>" + "".join(f"<module>{m}</module>" for m in mods) + """</modules>
<properties><project.build.sourceEncoding>UTF-8</project.build.sourceEncoding><maven.compiler.source>11</maven.compiler.source><maven.compiler.target>11</maven.compiler.target></properties>
<dependencies><dependency><groupId>junit</groupId><artifactId>junit</artifactId><version>4.x</version><scope>test</scope></dependency></dependencies>
<build><pluginManagement><plugins>
<plugin><artifactId>maven-compiler-plugin</artifactId><version>3.10.1</version></plugin>
<plugin><artifactId>maven-resources-plugin</artifactId><version>3.3.0</version></plugin>
<plugin><artifactId>maven-jar-plugin</artifactId><version>3.3.0</version></plugin>
<plugin><artifactId>maven-surefire-plugin</artifactId><version>2.22.3</version><configuration><trimStackTrace>false</trimStackTrace></configuration></plugin>
</plugins></pluginManagement></build>
</project>
""")
for m in mods:
    short = m.split("-")[1]
    d = f"{m}/src/main/java/com/example/inventory/{short}"; t = d.replace("main", "test", 1)
    os.makedirs(d); os.makedirs(t)
    deps = "<dependencies><dependency><groupId>com.example.inventory</groupId><artifactId>inventory-model</artifactId><version>2.4.0-SNAPSHOT</version></dependency></dependencies>" if m != mods[0] else ""
    open(f"{m}/pom.xml", "w").write(P + f"<parent><groupId>com.example.inventory</groupId><artifactId>inventory</artifactId><version>2.4.0-SNAPSHOT</version></parent>\n<artifactId>{m}</artifactId><name>Inventory {short.title()}</name>\n{deps}\n</project>\n")
    S = short.title()
    open(f"{d}/{S}.java", "w").write(f'''package com.example.inventory.{short};

import java.util.*;
import java.util.logging.*;

public class {S} {{
    private static final Logger LOG = Logger.getLogger({S}.class.getName());
    private final Map<String, Integer> counts = new TreeMap<>();

    public int add(String sku, int n) {{
        if (n < 0) throw new IllegalArgumentException("negative count for " + sku);
        return counts.merge(sku, n, Integer::sum);
    }}

    public int tryAdd(String sku, int n) {{
        try {{
            return add(sku, n);
        }} catch (IllegalArgumentException e) {{
            LOG.log(Level.WARNING, "add failed, ignored", e);
            return -1;
        }}
    }}

    public int take(String sku, int n) {{
        Integer have = counts.get(sku);
        counts.put(sku, have - n);
        return have - n;
    }}
}}
''')
    for c in ["Counts", "Errors", "Merge"]:
        s = f"package com.example.inventory.{short};\n\nimport org.junit.*;\nimport static org.junit.Assert.*;\n\npublic class {S}{c}Test {{\n"
        for k in range(5):
            s += f'    @Test public void {c.lower()}Case{k}() {{\n        {S} x = new {S}();\n        assertEquals({k}, x.add("sku-{k}", {k}));\n' + ('        assertEquals(-1, x.tryAdd("sku", -1));\n' if c == "Errors" and k % 2 else "") + "    }\n"
        if short == "store" and c == "Merge":
            s += '    @Test public void takeUnknownSku() {\n        Store s = new Store();\n        s.add("sku-1", 4);\n        assertEquals(0, s.take("sku-9", 0));\n    }\n'
        if short == "store" and c == "Counts":
            s += '    @Test public void takeLeavesRest() {\n        Store s = new Store();\n        s.add("sku-1", 4);\n        assertEquals("rest of sku-1", 2, s.take("sku-1", 1));\n    }\n'
        s += f'    @Test(expected = IllegalArgumentException.class) public void errorForNegative() {{\n        new {S}().add("sku", -1);\n    }}\n}}\n'
        open(f"{t}/{S}{c}Test.java", "w").write(s)
P
cp -rL /usr/share/maven-repo "$PWD/.repo" 2>/dev/null; echo "<settings/>" > .settings.xml
echo ==OUTPUT==
mvn -o -B -fae -s .settings.xml -Dmaven.repo.local="$PWD/.repo" -DskipITs test 2>&1 | sed -E -e 's#/root#/home/dev#g' -e 's#file:/[^ ]*maven-repo#https://repo.example.org/maven2#g'
status=${PIPESTATUS[0]}
rm -rf .repo
exit $status
