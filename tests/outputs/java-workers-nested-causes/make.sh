# needs: javac java (17)
# packages: openjdk-17-jdk-headless
mkdir -p src out
cat > src/Price.java <<'J'
package shop;
import java.util.Map;
public final class Price {
    private static final Map<String, Integer> RATES = Map.of("EUR", 100, "USD", 92, "PLN", 23, "CHF", 104);
    static int parse(String raw) {
        try { return Integer.parseInt(raw); }
        catch (NumberFormatException e) { throw new IllegalArgumentException("not a price: " + raw, e); }
    }
    static int inEuro(String currency, int amount) {
        return RATES.get(currency) * amount / 100;
    }
}
J
cat > src/Store.java <<'J'
package shop;
import java.nio.file.*;
import java.io.*;
public final class Store {
    private final Path dir;
    Store(Path dir) { this.dir = dir; }
    void save(String id, int total) {
        try { Files.writeString(dir.resolve(id + ".order"), "total=" + total + "\n"); }
        catch (IOException e) { throw new UncheckedIOException("cannot save order " + id, e); }
    }
}
J
cat > src/Importer.java <<'J'
package shop;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.logging.*;
public final class Importer {
    static final Logger LOG = Logger.getLogger("shop.importer");
    static final class ImportException extends RuntimeException { ImportException(String m, Throwable c) { super(m, c); } }
    static int line(String[] f) {
        try { return Price.inEuro(f[2], Price.parse(f[1])); }
        catch (IllegalArgumentException e) {                       // a known bad price: logged, counted as zero
            LOG.log(Level.WARNING, "order " + f[0] + ": using price 0", e);
            return 0;
        }
    }
    static void one(Store store, String[] f) {
        try {
            int total = line(f);
            for (int attempt = 1; ; attempt++) {
                try { if (f[0].endsWith("3") && attempt < 3) throw new TimeoutException("store did not answer in 50 ms"); store.save(f[0], total); break; }
                catch (TimeoutException e) { LOG.log(Level.WARNING, "order {0}: attempt {1} failed, retrying: {2}", new Object[]{f[0], attempt, e}); }
            }
            LOG.log(Level.INFO, "order {0} imported, total {1}", new Object[]{f[0], total});
        } catch (RuntimeException e) { throw new ImportException("import of order " + f[0] + " failed", e); }
    }
    public static void main(String[] a) throws Exception {
        System.setProperty("java.util.logging.SimpleFormatter.format", "%1$tF %1$tT.%1$tL %4$-7s [%3$s] %5$s%6$s%n");
        Store store = new Store(Files.createDirectories(Path.of("orders")));
        ExecutorService pool = Executors.newFixedThreadPool(4, new ThreadFactory() { int n; public Thread newThread(Runnable r) { return new Thread(r, "import-" + ++n); } });
        List<Future<?>> all = new ArrayList<>();
        String[] cur = {"EUR", "USD", "PLN", "CHF"};
        for (int i = 1; i <= 160; i++) {
            String[] f = {"A" + (1000 + i), i % 17 == 0 ? "n/a" : "" + i * 3, i == 97 ? "GBP" : cur[i % 4]};
            all.add(pool.submit(() -> one(store, f)));
            Thread.sleep(2);
        }
        pool.shutdown();
        int ok = 0; List<Throwable> failed = new ArrayList<>();
        for (Future<?> f : all) try { f.get(); ok++; } catch (ExecutionException e) { failed.add(e); LOG.log(Level.SEVERE, "batch failed", e); }
        LOG.info("checking files");
        for (int i = 1; i <= 160; i++) if (!Files.exists(Path.of("orders/A" + (1000 + i) + ".order"))) LOG.warning("A" + (1000 + i) + ".order is missing"); else if (i % 4 == 0) LOG.info("A" + (1000 + i) + ".order verified, errors=0");
        LOG.info("imported " + ok + " of " + all.size() + " orders");
        if (!failed.isEmpty()) System.exit(3);
    }
}
J
javac -d out src/*.java >/dev/null 2>&1
echo ==OUTPUT==
env -u JAVA_TOOL_OPTIONS java -XX:-OmitStackTraceInFastThrow -cp out shop.Importer 2>&1
