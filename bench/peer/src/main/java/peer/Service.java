package peer;

import static io.grpc.stub.ServerCalls.asyncUnaryCall;

import com.google.protobuf.ByteString;
import io.grpc.CallOptions;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyQueryMetadata;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.state.HostInfo;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import peer.pb.GetRequest;
import peer.pb.GetResponse;
import peer.pb.ReplicaStatus;
import peer.pb.Role;

/** Get, answered here if the key is active here, else by the instance where it is. */
final class Service {
  static final String STORE = "counts";
  private static final StringSerializer KEY = new StringSerializer();
  private static final long FORWARD_MS = App.number("FORWARD_TIMEOUT_MS", 2000);
  private static final String ROUTED_NAME = "iq.v1.QueryService";
  private static final String LOCAL_NAME = "peer.Local"; // never forwards again
  private static final MethodDescriptor<GetRequest, GetResponse> ROUTED = method(ROUTED_NAME);
  private static final MethodDescriptor<GetRequest, GetResponse> LOCAL = method(LOCAL_NAME);

  private final KafkaStreams streams;
  private final HostInfo self;
  private final String selfName;
  private final ConcurrentHashMap<Integer, ReadOnlyKeyValueStore<String, Long>> stores = new ConcurrentHashMap<>();
  private final ConcurrentHashMap<HostInfo, ManagedChannel> others = new ConcurrentHashMap<>();

  Service(KafkaStreams streams, String host, int port) {
    this.streams = streams;
    this.self = new HostInfo(host, port);
    this.selfName = host + ":" + port;
  }

  private static MethodDescriptor<GetRequest, GetResponse> method(String service) {
    return MethodDescriptor.<GetRequest, GetResponse>newBuilder().setType(MethodDescriptor.MethodType.UNARY)
        .setFullMethodName(MethodDescriptor.generateFullMethodName(service, "Get")).setSampledToLocalTracing(true)
        .setRequestMarshaller(ProtoUtils.marshaller(GetRequest.getDefaultInstance()))
        .setResponseMarshaller(ProtoUtils.marshaller(GetResponse.getDefaultInstance())).build();
  }

  ServerServiceDefinition routed() {
    return ServerServiceDefinition.builder(ROUTED_NAME).addMethod(ROUTED, asyncUnaryCall((req, out) -> get(req, out, true))).build();
  }

  ServerServiceDefinition local() {
    return ServerServiceDefinition.builder(LOCAL_NAME).addMethod(LOCAL, asyncUnaryCall((req, out) -> get(req, out, false))).build();
  }

  /** Forgets the handles of stores, which a rebalance may have moved. */
  void forget() {
    stores.clear();
  }

  private void get(GetRequest req, StreamObserver<GetResponse> out, boolean forwards) {
    String key = req.getKey().toString(StandardCharsets.UTF_8);
    KeyQueryMetadata where;
    try {
      where = streams.queryMetadataForKey(STORE, key, KEY);
    } catch (IllegalStateException e) { // not running
      out.onError(Status.UNAVAILABLE.withDescription(e.getMessage()).asRuntimeException());
      return;
    }
    if (where == null || KeyQueryMetadata.NOT_AVAILABLE.equals(where)) {
      out.onError(Status.UNAVAILABLE.withDescription("no metadata").asRuntimeException());
    } else if (self.equals(where.activeHost())) {
      answer(key, where.partition(), out);
    } else if (forwards) {
      forward(where.activeHost(), req, out);
    } else {
      out.onError(Status.UNAVAILABLE.withDescription("not active here").asRuntimeException());
    }
  }

  private void answer(String key, int partition, StreamObserver<GetResponse> out) {
    Long count;
    try {
      ReadOnlyKeyValueStore<String, Long> store = stores.get(partition);
      if (store == null) {
        store = streams.store(StoreQueryParameters.fromNameAndType(STORE, QueryableStoreTypes.<String, Long>keyValueStore()).withPartition(partition));
        stores.put(partition, store);
      }
      count = store.get(key);
    } catch (InvalidStateStoreException | IllegalStateException e) {
      stores.remove(partition);
      out.onError(Status.UNAVAILABLE.withDescription(e.getMessage()).asRuntimeException());
      return;
    }
    GetResponse.Builder b = GetResponse.newBuilder().setFound(count != null)
        .setServed(ReplicaStatus.newBuilder().setNode(selfName).setRole(Role.ROLE_ACTIVE).setOffsetLag(0));
    if (count != null) {
      b.setValue(ByteString.copyFrom(ByteBuffer.allocate(Long.BYTES).putLong(0, count)));
    }
    out.onNext(b.build());
    out.onCompleted();
  }

  private void forward(HostInfo host, GetRequest req, StreamObserver<GetResponse> out) {
    ManagedChannel channel = others.computeIfAbsent(host,
        h -> NettyChannelBuilder.forAddress(h.host(), h.port()).usePlaintext().directExecutor().build());
    ClientCalls.asyncUnaryCall(channel.newCall(LOCAL, CallOptions.DEFAULT.withDeadlineAfter(FORWARD_MS, TimeUnit.MILLISECONDS)), req, out);
  }
}
