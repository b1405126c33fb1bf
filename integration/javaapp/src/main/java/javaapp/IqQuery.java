package javaapp;

import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import com.google.rpc.ErrorInfo;
import io.grpc.MethodDescriptor;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import io.iqgate.v1.GetRequest;
import io.iqgate.v1.GetResponse;
import io.iqgate.v1.PartitionOffset;
import io.iqgate.v1.ReadPolicy;
import io.iqgate.v1.ReplicaState;
import io.iqgate.v1.ReplicaStatus;
import io.iqgate.v1.Role;
import java.time.Instant;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.query.FailureReason;
import org.apache.kafka.streams.query.KeyQuery;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.query.StateQueryRequest;
import org.apache.kafka.streams.query.VersionedKeyQuery;
import org.apache.kafka.streams.query.WindowKeyQuery;
import org.apache.kafka.streams.query.WindowRangeQuery;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowStoreIterator;

/** Answers iq.v1 Get for the store partitions that are active in this instance, by interactive queries. */
public final class IqQuery {
  public enum Kind { KEY_VALUE, WINDOW, SESSION, VERSIONED }

  /** A store that is served, the topic that feeds it, and the serdes of its keys and values. */
  public record Store(Kind kind, String input, Serde<?> keys, Serde<?> values) {}

  private record Found(Object value, long timestamp) {}

  private final KafkaStreams streams;
  private final String node;
  private final Map<String, Store> stores;

  public IqQuery(KafkaStreams streams, String node, Map<String, Store> stores) {
    this.streams = streams;
    this.node = node;
    this.stores = stores;
  }

  /** The service to add to the gRPC server: what protoc-gen-grpc-java would make of it, for Get alone. */
  public ServerServiceDefinition service() {
    String name = "iq.v1.QueryService";
    MethodDescriptor<GetRequest, GetResponse> get = MethodDescriptor.<GetRequest, GetResponse>newBuilder()
        .setType(MethodDescriptor.MethodType.UNARY).setFullMethodName(MethodDescriptor.generateFullMethodName(name, "Get"))
        .setRequestMarshaller(ProtoUtils.marshaller(GetRequest.getDefaultInstance()))
        .setResponseMarshaller(ProtoUtils.marshaller(GetResponse.getDefaultInstance())).build();
    return ServerServiceDefinition.builder(name).addMethod(get, ServerCalls.asyncUnaryCall(this::get)).build();
  }

  private void get(GetRequest req, StreamObserver<GetResponse> out) {
    try {
      out.onNext(answer(req));
      out.onCompleted();
    } catch (StatusRuntimeException e) {
      out.onError(e);
    } catch (RuntimeException e) { // not running, or the store is on its way elsewhere
      out.onError(refusal(Status.Code.UNAVAILABLE, "NOT_HOSTED", node + ": " + e.getMessage()));
    }
  }

  private GetResponse answer(GetRequest req) {
    Store store = stores.get(req.getStore());
    if (store == null || !req.hasPartition()) { // a router always says the partition
      throw refusal(Status.Code.UNAVAILABLE, "NOT_HOSTED", node + " does not serve " + req.getStore());
    }
    if (req.getPolicy().getMode() == ReadPolicy.Mode.MODE_STRONG) {
      throw refusal(Status.Code.UNAVAILABLE, "NO_ACTIVE", node + " is Kafka Streams, which cannot promise a strong read; ask with active");
    }
    GetResponse.Builder b = GetResponse.newBuilder().setServed(ReplicaStatus.newBuilder()
        .setNode(node).setStore(req.getStore()).setPartition(req.getPartition()).setRole(Role.ROLE_ACTIVE)
        .setState(ReplicaState.REPLICA_STATE_RUNNING).setLeaseValid(true).setOffsetLag(0).setTimeLag(Duration.getDefaultInstance()));
    Found found = find(req, store, b);
    if (found != null) {
      @SuppressWarnings("unchecked") Serde<Object> values = (Serde<Object>) store.values();
      b.setFound(true).setTimestampMs(found.timestamp());
      b.setValue(ByteString.copyFrom(values.serializer().serialize(null, found.value())));
    }
    return b.build();
  }

  private Found find(GetRequest req, Store store, GetResponse.Builder b) {
    Object key = store.keys().deserializer().deserialize(null, req.getKey().toByteArray());
    switch (store.kind()) {
      case WINDOW:
        Instant start = Instant.ofEpochMilli(req.getWindowStartMs());
        try (WindowStoreIterator<Object> it = ask(req, WindowKeyQuery.withKeyAndWindowStartRange(key, start, start), b)) {
          return it.hasNext() ? found(it.next().value) : null;
        }
      case SESSION:
        try (KeyValueIterator<Windowed<Object>, Object> it = ask(req, WindowRangeQuery.withKey(key), b)) {
          while (it.hasNext()) {
            KeyValue<Windowed<Object>, Object> s = it.next();
            if (s.key.window().start() == req.getWindowStartMs() && s.key.window().end() == req.getSessionEndMs()) {
              return found(s.value);
            }
          }
          return null;
        }
      case VERSIONED:
        VersionedKeyQuery<Object, Object> latest = VersionedKeyQuery.withKey(key);
        VersionedRecord<Object> v = ask(req, req.hasAsOfMs() ? latest.asOf(Instant.ofEpochMilli(req.getAsOfMs())) : latest, b);
        return v == null ? null : new Found(v.value(), v.timestamp());
      default:
        return found(ask(req, KeyQuery.withKey(key), b));
    }
  }

  private static Found found(Object v) {
    if (v instanceof ValueAndTimestamp<?> t) {
      return new Found(t.value(), t.timestamp());
    }
    return v == null ? null : new Found(v, 0);
  }

  /** Asks the store's active partition, and notes up to where its input is in the answer. */
  private <R> R ask(GetRequest req, Query<R> query, GetResponse.Builder b) {
    QueryResult<R> result = streams.query(StateQueryRequest.inStore(req.getStore()).withQuery(query).requireActive()
        .withPartitions(Set.of(req.getPartition())).withPositionBound(bound(req))).getPartitionResults().get(req.getPartition());
    if (result == null || result.isFailure()) {
      String why = node + ": " + (result == null ? "partition " + req.getPartition() + " is not here" : result.getFailureMessage());
      boolean late = result != null && result.getFailureReason() == FailureReason.NOT_UP_TO_BOUND;
      throw late ? refusal(Status.Code.FAILED_PRECONDITION, "POSITION_NOT_REACHED", why) : refusal(Status.Code.UNAVAILABLE, "NO_ACTIVE", why);
    }
    Position at = result.getPosition();
    for (String topic : at.getTopics()) {
      at.getPartitionPositions(topic).forEach((partition, offset) -> b.getInputPositionBuilder().addOffsets(
          PartitionOffset.newBuilder().setTopic(topic).setPartition(partition).setOffset(offset + 1))); // ours is the next one
    }
    return result.getResult();
  }

  private static PositionBound bound(GetRequest req) {
    Position p = Position.emptyPosition();
    for (PartitionOffset o : req.getPolicy().getAtLeast().getOffsetsList()) {
      if (o.getPartition() == req.getPartition() && o.getOffset() > 0) {
        p = p.withComponent(o.getTopic(), o.getPartition(), o.getOffset() - 1);
      }
    }
    return PositionBound.at(p);
  }

  private static StatusRuntimeException refusal(Status.Code code, String reason, String text) {
    return StatusProto.toStatusRuntimeException(com.google.rpc.Status.newBuilder().setCode(code.value()).setMessage(text)
        .addDetails(Any.pack(ErrorInfo.newBuilder().setDomain("iqgate").setReason(reason).build())).build());
  }
}
