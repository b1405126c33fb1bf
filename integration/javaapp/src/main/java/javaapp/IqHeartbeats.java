package javaapp;

import com.google.protobuf.Duration;
import io.grpc.CallOptions;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import io.iqgate.v1.HeartbeatRequest;
import io.iqgate.v1.HeartbeatResponse;
import io.iqgate.v1.ReplicaState;
import io.iqgate.v1.ReplicaStatus;
import io.iqgate.v1.Role;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsMetadata;
import org.apache.kafka.streams.state.HostInfo;

/** Tells routers, ten times a second, which store partitions are active in this instance. */
public final class IqHeartbeats implements AutoCloseable {
  private static final long EVERY_MS = 100;
  private static final MethodDescriptor<HeartbeatRequest, HeartbeatResponse> HEARTBEAT = MethodDescriptor.<HeartbeatRequest, HeartbeatResponse>newBuilder()
      .setType(MethodDescriptor.MethodType.BIDI_STREAMING).setFullMethodName(MethodDescriptor.generateFullMethodName("iq.v1.ControlService", "Heartbeat"))
      .setRequestMarshaller(ProtoUtils.marshaller(HeartbeatRequest.getDefaultInstance()))
      .setResponseMarshaller(ProtoUtils.marshaller(HeartbeatResponse.getDefaultInstance())).build();

  private final KafkaStreams streams;
  private final String application;
  private final String node;
  private final HostInfo self;
  private final Map<String, IqQuery.Store> stores;
  private final double leaseSeconds; // how long after the group's last heartbeat the instance still speaks as active
  private final long incarnation = System.currentTimeMillis();
  private final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor(r -> new Thread(r, "iqgate-heartbeats"));
  private final List<Router> routers = new ArrayList<>();
  private long sequence;
  private long generation = incarnation; // grows with each rebalance
  private boolean ran;

  public IqHeartbeats(KafkaStreams streams, String application, String node, HostInfo self, Map<String, IqQuery.Store> stores,
      double leaseSeconds, List<String> addresses) {
    this.streams = streams;
    this.application = application;
    this.node = node;
    this.self = self;
    this.stores = stores;
    this.leaseSeconds = leaseSeconds;
    addresses.forEach(a -> routers.add(new Router(NettyChannelBuilder.forTarget(a).usePlaintext().build())));
    timer.scheduleAtFixedRate(() -> send(false), 0, EVERY_MS, TimeUnit.MILLISECONDS);
  }

  /** Says goodbye: the routers look for the partitions elsewhere at once. Call it before KafkaStreams.close. */
  @Override
  public void close() throws InterruptedException {
    timer.execute(() -> send(true));
    timer.shutdown();
    timer.awaitTermination(1, TimeUnit.SECONDS);
    routers.forEach(r -> r.channel.shutdown());
  }

  private void send(boolean leaving) {
    HeartbeatRequest report = report(leaving);
    routers.forEach(r -> r.send(report));
  }

  private HeartbeatRequest report(boolean leaving) {
    boolean runs = streams.state() == KafkaStreams.State.RUNNING;
    if (runs && !ran) {
      generation = Math.max(generation + 1, System.currentTimeMillis()); // whoever had the partitions before has a lower one
    }
    ran = runs;
    boolean lease = runs && heartbeatAge() < leaseSeconds;
    HeartbeatRequest.Builder b = HeartbeatRequest.newBuilder().setNode(node).setIncarnation(incarnation).setSequence(++sequence)
        .setApplication(application).setAddress(self.host() + ":" + self.port()).setFull(true).setLeaving(leaving)
        .setInterval(Duration.newBuilder().setNanos((int) (2 * EVERY_MS * 1_000_000))); // a pause of the JVM is no death
    stores.forEach((store, s) -> {
      for (TopicPartition tp : activePartitions(store)) {
        if (tp.topic().equals(s.input())) {
          b.addReplicas(ReplicaStatus.newBuilder().setStore(store).setPartition(tp.partition()).setRole(Role.ROLE_ACTIVE)
              .setState(runs ? ReplicaState.REPLICA_STATE_RUNNING : ReplicaState.REPLICA_STATE_RESTORING)
              .setGeneration(generation).setLeaseValid(lease).setOffsetLag(0).setTimeLag(Duration.getDefaultInstance()));
        }
      }
    });
    return b.build();
  }

  private List<TopicPartition> activePartitions(String store) {
    List<TopicPartition> mine = new ArrayList<>();
    try {
      for (StreamsMetadata m : streams.streamsMetadataForStore(store)) {
        if (m.hostInfo().equals(self)) {
          mine.addAll(m.topicPartitions());
        }
      }
    } catch (IllegalStateException e) { // not started, or closed
      mine.clear();
    }
    return mine;
  }

  /** How many seconds ago the group answered the last heartbeat of the thread that has waited longest. */
  private double heartbeatAge() {
    double age = -1;
    for (Metric m : streams.metrics().values()) {
      if (m.metricName().name().equals("last-heartbeat-seconds-ago") && m.metricValue() instanceof Double d) {
        age = Math.max(age, d);
      }
    }
    return age < 0 ? Double.MAX_VALUE : age;
  }

  /** One router's stream, made again when it breaks. Only the timer's thread sends. */
  private static final class Router implements StreamObserver<HeartbeatResponse> {
    final ManagedChannel channel;
    private volatile boolean open;
    private StreamObserver<HeartbeatRequest> out;

    Router(ManagedChannel channel) {
      this.channel = channel;
    }

    void send(HeartbeatRequest report) {
      if (!open) {
        open = true;
        out = ClientCalls.asyncBidiStreamingCall(channel.newCall(HEARTBEAT, CallOptions.DEFAULT), this);
      }
      try {
        out.onNext(report);
        if (report.getLeaving()) {
          out.onCompleted();
        }
      } catch (IllegalStateException e) { // it has just ended
        open = false;
      }
    }

    @Override
    public void onNext(HeartbeatResponse resp) {}

    @Override
    public void onError(Throwable t) {
      open = false;
    }

    @Override
    public void onCompleted() {
      open = false;
    }
  }
}
