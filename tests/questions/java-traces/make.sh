# needs: java javac (17)
# packages:
# A document-conversion service, run for real: every exception below was thrown, wrapped and printed by the JVM.
cat > Scan.java <<'J'
import java.util.*; import java.util.function.*; import java.io.*; import java.nio.file.*; import java.time.*; import java.util.concurrent.*; import java.nio.charset.*; import java.math.*;
public class Scan {
  static class ConversionException extends RuntimeException { ConversionException(String m,Throwable c){super(m,c);} }
  static class TenantQuotaException extends Exception { TenantQuotaException(String m,Throwable c){super(m,c);} }
  static class StorageException extends RuntimeException { StorageException(String m,Throwable c){super(m,c);} }
  static class UploadRejectedException extends Exception { UploadRejectedException(String m){super(m);} }
  static int sec=0; static Random R=new Random(99);
  static void log(String lv,String c,String m){ sec+=R.nextInt(9)+1; System.out.printf("%s %-5s [conv-%d] c.e.scan.%s - %s%n",LocalDateTime.of(2024,11,4,21,10).plusSeconds(sec).toString().replace('T',' '),lv,R.nextInt(8),c,m); }
  static void trace(Throwable t){ t.printStackTrace(System.out); }
  interface Job { void run() throws Exception; }
  static class PageRenderer { static void render(String doc,Job j){ try{ j.run(); }catch(Exception e){ throw new ConversionException("Rendering of "+doc+" failed",e);} } }
  static class BlobStore { static void put(String key,Job j){ try{ j.run(); }catch(Exception e){ throw new StorageException("Could not store blob "+key,e);} } }
  static class TenantLedger { static void bill(String t,Job j) throws TenantQuotaException{ try{ j.run(); }catch(Exception e){ throw new TenantQuotaException("Billing rejected for tenant "+t,e);} } }
  static void pipeline(String comp,String msg,Job j){ try{ j.run(); }catch(Throwable e){ log("ERROR",comp,msg); trace(e);} }
  static String[] docs={"invoice-2291.pdf","contract_nda.docx","floorplan.dwg","payslips.xlsx","thesis-final.tex","holiday.heic","minutes-0412.odt","passport-scan.tif"};
  static String[] tenants={"northwind-legal","acme-dental","vela-archive","uni-porto","brightside"};
  static void noise(int n){ for(int i=0;i<n;i++){ String d=docs[R.nextInt(8)],t=tenants[R.nextInt(5)]; int k=R.nextInt(13);
    switch(k){ case 0: log("INFO","Intake","accepted "+d+" from "+t+" ("+R.nextInt(9000)+" kB)"); break;
      case 1: log("DEBUG","PageRenderer","page "+(1+R.nextInt(60))+" of "+d+" rendered in "+R.nextInt(900)+" ms"); break;
      case 2: log("INFO","BlobStore","stored blob b-"+Integer.toHexString(R.nextInt())+" for "+t); break;
      case 3: log("INFO","TenantLedger","billed "+(1+R.nextInt(40))+" pages to "+t); break;
      case 4: log("DEBUG","OcrEngine","language guess "+new String[]{"deu","por","eng","nld"}[R.nextInt(4)]+" confidence 0."+(50+R.nextInt(49))); break;
      case 5: log("WARN","OcrEngine","skewed by "+R.nextInt(12)+" degrees, straightening "+d); break;
      case 6: log("INFO","Webhook","notified https://hooks."+t+".example/done status 200"); break;
      case 7: log("DEBUG","VirusScan","clean "+d); break;
      case 8: pipeline("Webhook","callback to "+t+" failed, will retry",()->{ throw new IOException("HTTP 502 from hooks."+t+".example"); }); break;
      case 9: if(R.nextInt(3)==0) pipeline("PageRenderer","conversion of "+d+" failed",()->PageRenderer.render(d,()->{ Object o=null; o.hashCode(); })); break;
      case 10: if(R.nextInt(2)==0) pipeline("BlobStore","upload failed",()->BlobStore.put("b-"+Integer.toHexString(R.nextInt()),()->{ throw new TimeoutException("no answer from bucket eu-2 within 10 s"); })); break;
      case 11: log("INFO","Janitor","removed "+R.nextInt(40)+" temp files"); break;
      default: log("DEBUG","Scheduler","queue depth "+R.nextInt(70)); } } }
  public static void main(String[] a) throws Exception {
    log("INFO","Main","scan-service 7.2.0 starting with 8 conversion threads"); noise(35);
    pipeline("FontCache","font substitution table unreadable",()->{ try{ Files.readString(Path.of("/nonexistent/fonts/substitutions.tsv")); }catch(IOException e){ throw new UncheckedIOException("using Courier for every glyph",e);} }); noise(50);
    pipeline("PageRenderer","conversion of thesis-final.tex failed",()->PageRenderer.render("thesis-final.tex",()->{ try{ Integer.parseInt("xiv"); }catch(NumberFormatException e){ throw new IllegalStateException("page label is a roman numeral",e);} })); noise(60);
    pipeline("Intake","upload from uni-porto refused",()->{ throw new UploadRejectedException("archive contains 41,000 nested folders, limit is 500"); }); noise(40);
    pipeline("TenantLedger","billing run for brightside stopped",()->TenantLedger.bill("brightside",()->{ try{ new BigDecimal(10).divide(new BigDecimal(3)); }catch(ArithmeticException e){ throw new IllegalArgumentException("splitting the discount over three invoices",e);} })); noise(60);
    pipeline("BlobStore","nightly replication aborted",()->BlobStore.put("b-cold-0007",()->{ try{ throw new FileSystemException("/mnt/cold/seg7",null,"Read-only file system"); }catch(IOException e){ throw new ExecutionException("replica in Frankfurt became unwritable after disk fault",e);} })); noise(55);
    pipeline("OcrEngine","recognition gave up on passport-scan.tif",()->{ try{ recurse(0); }catch(StackOverflowError e){ StackTraceElement[] s=Arrays.copyOf(e.getStackTrace(),6); e.setStackTrace(s); throw new ConversionException("table inside table inside table in passport-scan.tif",e);} }); noise(45);
    pipeline("CharsetGuesser","text layer of minutes-0412.odt lost",()->PageRenderer.render("minutes-0412.odt",()->{ StandardCharsets.UTF_8.newDecoder().decode(java.nio.ByteBuffer.wrap(new byte[]{(byte)0xc3,0x28})); })); noise(50);
    pipeline("Scheduler","worker pool refused new jobs",()->{ ThreadPoolExecutor p=new ThreadPoolExecutor(1,1,1,TimeUnit.SECONDS,new ArrayBlockingQueue<>(1)); try{ for(int i=0;i<4;i++) p.submit(()->{ try{ Thread.sleep(400);}catch(InterruptedException e){} }); } catch(RejectedExecutionException e){ RejectedExecutionException n=new RejectedExecutionException("pool shut its door: 2 jobs ahead of acme-dental"); n.setStackTrace(e.getStackTrace()); throw n; } finally{ p.shutdownNow(); } }); noise(60);
    pipeline("RetentionPolicy","purge of vela-archive skipped",()->{ try{ LocalDate.parse("2024-02-30"); }catch(Exception e){ throw new ConversionException("legal hold has an impossible end date",e);} }); noise(55);
    pipeline("SignatureVerifier","contract_nda.docx kept unsigned",()->{ try{ java.security.MessageDigest.getInstance("GOST3411"); }catch(Exception e){ throw new SecurityException("signer used an algorithm this runtime lacks",e);} }); noise(50);
    pipeline("TenantLedger","northwind-legal suspended",()->TenantLedger.bill("northwind-legal",()->{ throw new IllegalStateException("credit exhausted: 1,204 pages over prepaid allowance"); })); noise(45);
    pipeline("PageRenderer","conversion of floorplan.dwg failed",()->PageRenderer.render("floorplan.dwg",()->{ try{ int[] l=new int[12]; l[17]++; }catch(ArrayIndexOutOfBoundsException e){ throw new UnsupportedOperationException("drawing layer not present in R14 header",e);} })); noise(50);
    pipeline("LicenceCheck","OCR add-on disabled",()->{ Throwable c=new java.security.cert.CertificateExpiredException("NotAfter: Sun Nov 03 23:59:59 UTC 2024"); throw new IllegalStateException("vendor licence file no longer honoured",c); }); noise(40);
    pipeline("Main","shutdown hook interrupted",()->{ Exception e=new IOException("flush of audit trail incomplete"); e.addSuppressed(new InterruptedException("operator pressed ctrl-c twice")); throw e; });
    log("INFO","Main","bye"); }
  static int recurse(int n){ return recurse(n+1)+1; }
}
J
javac Scan.java
echo ==OUTPUT==
java -Xss512k -XX:TieredStopAtLevel=1 -cp . Scan
