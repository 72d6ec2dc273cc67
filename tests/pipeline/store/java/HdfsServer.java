import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/**
 * HDFS on loopback for tests: one name node and one data node, as Hadoop's own tests have it, with its blocks and its
 * edits in a folder. Arguments: the folder, the name node's port, "true" to begin with nothing. It says "ready" when it
 * takes writes, and ends with its input.
 */
public final class HdfsServer {
    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        // A killed writer's file is soon another's to make, and what was left by a kill is served at once.
        settings.setLong("dfs.namenode.lease-recheck-interval-ms", 500);
        settings.setInt("dfs.namenode.safemode.extension", 0);
        // Who may do what is asked, as in a cluster of others; the user is HADOOP_USER_NAME.
        settings.setBoolean("dfs.permissions.enabled", true);
        MiniDFSCluster cluster =
            new MiniDFSCluster.Builder(settings, new File(arguments[0]))
                .nameNodePort(Integer.parseInt(arguments[1]))
                .numDataNodes(1)
                .format(Boolean.parseBoolean(arguments[2]))
                .build();
        cluster.waitActive();
        System.out.println("ready");
        System.out.flush();
        while (System.in.read() >= 0) {}
        cluster.shutdown();
    }

    private HdfsServer() {}
}
