import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/** Each line is rules, a tab and a name; the answer is the user, or what refused it. */
public class Mapping {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null;) {
            String[] parts = line.split("\t", -1);
            String answer;
            try {
                answer = SslPrincipalMapper.fromRules(parts[0]).getName(parts[1]);
            } catch (IllegalArgumentException error) {
                answer = "!invalid";
            } catch (java.io.IOException error) {
                answer = "!nobody";
            }
            System.out.println(answer);
        }
    }
}
