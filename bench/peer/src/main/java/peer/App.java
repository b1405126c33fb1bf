package peer;

import io.grpc.Server;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.KeyValueStore;

/** A Kafka Streams application that counts by key and answers interactive queries by gRPC: what a Java team would run. */
public final class App {
  private App() {}

  static String env(String name, String otherwise) {
    String v = System.getenv(name);
    return v == null || v.isEmpty() ? otherwise : v;
  }

  static int number(String name, int otherwise) {
    return Integer.parseInt(env(name, Integer.toString(otherwise)));
  }

  /** Prints one JSON line on stdout. */
  static synchronized void event(String name, String rest) {
    System.out.println("{\"t\":" + System.currentTimeMillis() + ",\"event\":\"" + name + "\"" + (rest.isEmpty() ? "" : "," + rest) + "}");
  }

  public static void main(String[] args) throws Exception {
    String host = env("HOST", "127.0.0.1");
    int port = number("PORT", 7001);
    event("main", "\"java\":\"" + System.getProperty("java.vendor.version", "") + " " + Runtime.version() + "\"");

    KafkaStreams streams = new KafkaStreams(topology(env("IN_TOPIC", "events")), properties(host, port));
    Service service = new Service(streams, host, port);
    streams.setStateListener((now, old) -> {
      event("state", "\"from\":\"" + old + "\",\"to\":\"" + now + "\"");
      service.forget();
    });
    streams.setUncaughtExceptionHandler(e -> {
      event("uncaught", "\"error\":\"" + e.toString().replace('"', '\'').replace('\n', ' ') + "\"");
      return StreamThreadExceptionResponse.REPLACE_THREAD;
    });
    streams.setGlobalStateRestoreListener(new RestoreEvents());

    NettyServerBuilder builder = NettyServerBuilder.forAddress(new InetSocketAddress(host, port)).addService(service.routed()).addService(service.local());
    if (env("EXECUTOR", "direct").equals("direct")) {
      builder.directExecutor(); // on the event loop: 2.4 times the rate of the default thread pool
    }
    Server server = builder.build().start();

    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      CloseOptions.GroupMembershipOperation leave = CloseOptions.GroupMembershipOperation.LEAVE_GROUP;
      streams.close(CloseOptions.groupMembershipOperation(leave).withTimeout(Duration.ofSeconds(30)));
      server.shutdown();
      try {
        if (!server.awaitTermination(2, TimeUnit.SECONDS)) {
          server.shutdownNow();
        }
      } catch (InterruptedException e) {
        server.shutdownNow();
      }
      event("closed", "");
    }, "shutdown"));
    streams.start();
    server.awaitTermination();
  }

  private static Topology topology(String topic) {
    StreamsBuilder b = new StreamsBuilder();
    b.stream(topic, Consumed.with(Serdes.String(), Serdes.ByteArray()).withName("source"))
        .groupByKey(Grouped.with(Serdes.String(), Serdes.ByteArray()))
        .count(Named.as("count"), Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as(Service.STORE)
            .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()));
    return b.build();
  }

  private static Properties properties(String host, int port) {
    Properties p = new Properties();
    p.put(StreamsConfig.APPLICATION_ID_CONFIG, env("APP_ID", "peer"));
    p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, env("BOOTSTRAP", "127.0.0.1:9092"));
    p.put(StreamsConfig.APPLICATION_SERVER_CONFIG, host + ":" + port);
    p.put(StreamsConfig.STATE_DIR_CONFIG, env("STATE_DIR", "state"));
    p.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, number("THREADS", 2));
    p.put(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, number("STANDBYS", 0));
    p.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, env("GUARANTEE", StreamsConfig.EXACTLY_ONCE_V2));
    p.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
    p.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
    p.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), env("SESSION_MS", "10000"));
    p.put(StreamsConfig.ENABLE_METRICS_PUSH_CONFIG, "false");
    if (!env("CACHE_BYTES", "").isEmpty()) {
      p.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, env("CACHE_BYTES", ""));
    }
    if (!env("ACCEPTABLE_LAG", "").isEmpty()) {
      p.put(StreamsConfig.ACCEPTABLE_RECOVERY_LAG_CONFIG, env("ACCEPTABLE_LAG", ""));
    }
    if (env("TX_STORES", "false").equals("true")) {
      p.put(StreamsConfig.TRANSACTIONAL_STATE_STORES_CONFIG, "true");
    }
    return p;
  }

  private static final class RestoreEvents implements StateRestoreListener {
    @Override
    public void onRestoreStart(TopicPartition tp, String store, long from, long to) {
      event("restore_start", "\"partition\":" + tp.partition() + ",\"from\":" + from + ",\"to\":" + to);
    }

    @Override
    public void onBatchRestored(TopicPartition tp, String store, long end, long n) {}

    @Override
    public void onRestoreEnd(TopicPartition tp, String store, long total) {
      event("restore_end", "\"partition\":" + tp.partition() + ",\"records\":" + total);
    }
  }
}
