package javaapp;

import com.sun.net.httpserver.HttpServer;
import io.grpc.Server;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.state.HostInfo;

/** A Kafka Streams application with every kind of store, to be followed, asked and taken over from. */
public final class App {
  private App() {}

  static String env(String name, String otherwise) {
    String v = System.getenv(name);
    return v == null || v.isEmpty() ? otherwise : v;
  }

  public static void main(String[] args) throws Exception {
    String application = env("APP_ID", "javaapp");
    HostInfo self = new HostInfo("127.0.0.1", Integer.parseInt(env("PORT", "7001")));
    Map<String, IqQuery.Store> stores = new TreeMap<>();
    Properties properties = properties(application, self);
    KafkaStreams streams = new KafkaStreams(Stores.topology(env("STORES", "all"), application, stores).build(properties), properties);
    streams.setUncaughtExceptionHandler(e -> {
      System.out.println("uncaught " + e);
      return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
    });
    streams.setStateListener((now, old) -> System.out.println("state " + now));

    Server server = NettyServerBuilder.forAddress(new InetSocketAddress(self.host(), self.port()))
        .addService(new IqQuery(streams, "java-" + self.port(), stores).service()).build().start();
    HttpServer dump = HttpServer.create(new InetSocketAddress(self.host(), Integer.parseInt(env("DUMP_PORT", "0"))), 0);
    dump.createContext("/", exchange -> { // GET /store: everything that interactive queries say of it
      byte[] text;
      int code = 200;
      try {
        text = Dump.of(streams, exchange.getRequestURI().getPath().substring(1), stores).getBytes(StandardCharsets.UTF_8);
      } catch (RuntimeException e) {
        text = e.toString().getBytes(StandardCharsets.UTF_8);
        code = 503;
      }
      exchange.sendResponseHeaders(code, text.length == 0 ? -1 : text.length);
      exchange.getResponseBody().write(text);
      exchange.close();
    });
    dump.start();

    streams.start();
    String routers = env("ROUTERS", "");
    IqHeartbeats heartbeats = routers.isEmpty() ? null
        : new IqHeartbeats(streams, application, "java-" + self.port(), self, stores, 3, List.of(routers.split(",")));
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      try {
        if (heartbeats != null) {
          heartbeats.close();
        }
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
      streams.close(CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP).withTimeout(Duration.ofSeconds(20)));
      server.shutdownNow();
      dump.stop(0);
      System.out.println("closed");
    }, "shutdown"));
    server.awaitTermination();
  }

  private static Properties properties(String application, HostInfo self) {
    Properties p = new Properties();
    p.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
    p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, env("BOOTSTRAP", "127.0.0.1:9092"));
    p.put(StreamsConfig.APPLICATION_SERVER_CONFIG, self.host() + ":" + self.port());
    p.put(StreamsConfig.STATE_DIR_CONFIG, env("STATE_DIR", "state"));
    p.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
    p.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, env("GUARANTEE", StreamsConfig.EXACTLY_ONCE_V2));
    p.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
    p.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    p.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    p.put(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, StreamsConfig.REUSE_KTABLE_SOURCE_TOPICS);
    p.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
    p.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), "6000");
    p.put(StreamsConfig.consumerPrefix(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG), "500");
    p.put(StreamsConfig.ENABLE_METRICS_PUSH_CONFIG, "false");
    if (!env("COMMIT_MS", "").isEmpty()) {
      p.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, env("COMMIT_MS", ""));
    }
    if (!env("STORE_FORMAT", "").isEmpty()) {
      p.put("dsl.store.format", env("STORE_FORMAT", ""));
    }
    return p;
  }
}
