import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;
import javax.security.auth.x500.X500Principal;

/** Each line is a name's DER in hexadecimal; the answer is what Java calls it, in hexadecimal UTF-8. */
public class Names {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null;) {
            String name = new X500Principal(HexFormat.of().parseHex(line)).getName();
            System.out.println(HexFormat.of().formatHex(name.getBytes("UTF-8")));
        }
    }
}
