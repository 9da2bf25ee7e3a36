# needs: javac
# packages: openjdk-17-jdk-headless
set -u
mkdir -p src/app out
python3 - <<'P'
names = ["Account", "Basket", "Catalog", "Customer", "ErrorHandler", "FailedPayment", "Invoice", "Ledger", "Mailer", "Order", "Parcel", "Refund", "Stock", "Voucher"]
for i, n in enumerate(names):
    s = f'''package app;

import java.util.*;

public class {n} implements java.io.Serializable {{
    private List items = new ArrayList();
    private final Map<String, String> errors = new HashMap<>();

    public void add(Object o) {{
        items.add(o);
    }}

    public Integer boxed(int error) {{
        return new Integer(error);
    }}

    public int classify(int code) {{
        switch (code) {{
            case 1:
                errors.put("error", "{n} failed");
            case 2:
                return 2;
        }}
        return 0;
    }}

    @SuppressWarnings("none")
    public List<String> names() {{
        return (List<String>) items;
    }}
'''
    if n == "Invoice":
        s += '''
    public long total(Stream<Order> orders) {
        return orders.count();
    }
'''
    if n == "Ledger":
        s += '''
    public void post(Order order, Account account) {
        String id = order.boxed(7);
        account.debit(id, 12.5);
    }
'''
    if n == "Refund":
        s += '''
    public int days(int limit) {
        int n;
        if (limit > 10) {
            n = 14;
        }
        return n;
    }
'''
    open(f"src/app/{n}.java", "w").write(s + "}\n")
P
echo ==OUTPUT==
javac -Xlint:all -Xmaxwarns 500 -Xmaxerrs 500 -d out src/app/*.java 2>&1
status=$?
echo "javac ended with $status"
if [ $status -ne 0 ]; then echo "skipping: jar"; echo "classes written before the failure: $(find out -name '*.class' | wc -l)"; fi
exit $status
