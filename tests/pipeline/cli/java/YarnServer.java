import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/**
 * YARN on loopback for tests: a resource manager and node managers, as Hadoop's own tests have them. Arguments: a folder
 * for its settings, the default file system, how many node managers. It says "ready" when those take work, and ends
 * with its input. Containers are processes of this user, their folders are below the working directory.
 */
public final class YarnServer {
    private static final int CONNECT_MS_MAX = 60_000;

    public static void main(String[] arguments) throws Exception {
        Configuration settings = new YarnConfiguration();
        settings.set("fs.defaultFS", arguments[1]);
        // A JVM asks for far more addresses than memory, and a disk that is nearly full is no reason to refuse work here.
        settings.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
        settings.setFloat("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", 100);
        // What a distribution's file says: one queue, and a driver may have as much of it as it needs.
        settings.set("yarn.scheduler.capacity.root.queues", "default");
        settings.setInt("yarn.scheduler.capacity.root.default.capacity", 100);
        settings.setFloat("yarn.scheduler.capacity.maximum-am-resource-percent", 1);
        settings.setInt("yarn.scheduler.minimum-allocation-mb", 256);
        // What containers wrote stays for who reads it when the job has ended.
        settings.setInt("yarn.nodemanager.delete.debug-delay-sec", 600);
        int nodes = Integer.parseInt(arguments[2]);
        MiniYARNCluster cluster = new MiniYARNCluster("yarn", nodes, 1, 1);
        cluster.init(settings);
        cluster.start();
        if (!cluster.waitForNodeManagersToConnect(CONNECT_MS_MAX)) {
            throw new IllegalStateException("node managers are missing");
        }
        Configuration core = new Configuration(false);
        core.set("fs.defaultFS", arguments[1]);
        write(core, new File(arguments[0], "core-site.xml"));
        write(cluster.getConfig(), new File(arguments[0], "yarn-site.xml"));
        System.out.println("ready");
        System.out.flush();
        while (System.in.read() >= 0) {}
        cluster.stop();
    }

    private static void write(Configuration settings, File path) throws IOException {
        try (OutputStream file = new FileOutputStream(path)) {
            settings.writeXml(file);
        }
    }

    private YarnServer() {}
}
