// SPDX-License-Identifier: Apache-2.0
// One client: reads requests, answers them in order, streams what is generated
// and gives everything back the moment the client is gone. Lives on one io
// thread, which alone calls it.
//
//   kReading --request--> kGenerating --accepted, stream--> kStreaming
//      ^  \--other request: answered at once                     |
//      \<--------- answer complete, connection kept --------------/
//      any --last answer written--> kLingering --> kClosed <-- client gone, stalled
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/ip/tcp.hpp>

#include "http/api/answers/response_json.hpp"
#include "http/api/answers/stream_writer.hpp"
#include "http/routing/service.hpp"
#include "http/server/choices.hpp"
#include "http/server/client_socket.hpp"
#include "http/server/client_stream.hpp"
#include "http/wire/outgoing_bytes.hpp"
#include "http/wire/request_parser.hpp"

namespace troupe {

class Shard;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Clock = std::chrono::steady_clock;

  // entrance: the port's door; door: the same, or kReserve.
  Connection(Shard& shard, boost::asio::ip::tcp::socket socket, Door door, Door entrance);
  ~Connection();

  Door door() const { return door_; }
  // Since then nothing has been asked or taken. The door's quietest makes room.
  Clock::time_point quiet_since() const;
  void start();
  // An event of the generation under way; flush() follows when the events at
  // hand have all been handled.
  void on_event(ClientStream& stream, ResponseEvent event);
  void flush();

  // Ends what has taken too long, sends heartbeats. Called a few times a second.
  void check_deadlines(Clock::time_point now);
  // Closes if idle; else finishes the answer under way and closes then.
  void start_draining();
  // Ends the answer under way with an error.
  void abort_answer();
  void close();

 private:
  enum class Phase : std::uint8_t { kReading, kGenerating, kStreaming, kLingering, kClosed };

  // The request that is being answered.
  struct Exchange {
    RouteMatch route;  // its `rest` is not valid beyond the request
    std::string_view method;
    RequestOrigin origin;
    ResponseContext context;
    Clock::time_point started;
    std::shared_ptr<const TenantAccount> account = {};  // null: nothing is counted
    unsigned status = 0;
    bool is_generation = false;
    bool was_submitted = false;  // the engine answers for it, and traces it
    bool is_answered = false;    // all of the answer is in out_, be it to be made in pieces
  };
  // The generation that answers it, until its terminal event. Embeddings, tokens and
  // questions for the store are answered as generations are, with a single event.
  struct Generation {
    Choices choices;
    ModelIndex model = 0;
    std::string response_id = {};
    std::int64_t created = 0;
    ApiRequest request = {};  // without its prompts
    std::shared_ptr<const ConversationTurn> turn = {};
    std::unique_ptr<StreamWriter> writer = {};
    Usage usage = {};
    std::int64_t after = -1;  // of an answer that is followed: the last event that the client has
  };

  // reading
  void wait_readable();
  void read_available();
  void on_bytes(std::string_view bytes);
  void on_end_of_input();
  void on_failed_handshake(const boost::system::error_code& error);
  void note_part_of_record();
  void note_begin_of_request();
  void serve();

  // answering
  void begin_exchange(HttpRequest request);
  void open_exchange(const HttpRequest& request, const Service::Access& access);
  void answer(Reply reply);
  void answer_error(HttpError error);  // in whatever phase of the answer
  void restyle_error(Reply& reply) const;
  bool begin_inference();
  void expect_answer(Delivery delivery, std::size_t num_choices = 1);
  void start_generation(ApiRequest request);
  void start_detached(ApiRequest request);
  void follow(const std::shared_ptr<DetachedAnswer>& answer, bool is_stream, std::int64_t after);
  bool answer_detached(const StoredRequest& request);
  void answer_ended();
  void ask_store(StoredRequest request);
  void start_embedding(ApiEmbeddingRequest request);
  void start_tokens(ApiTokenRequest request);
  void tell_limits();
  void complete(std::string& flow, RequestOrigin& origin, bool is_stream);
  std::string client_network() const;
  void look_up(StoredRequest request);
  void begin_stream();
  void on_delta(ClientStream& stream, TextDelta delta);
  void on_finished(std::uint32_t choice, const Finished& finished);
  Reply detached_reply(const DetachedAnswer& answer) const;
  Reply whole_answer(const Finished& finished) const;
  Reply whole_choices(const Finished& finished) const;
  Reply whole_ollama_answer(const Finished& finished) const;
  // Queues what the writer of the stream has left, behind what it appended.
  void queue_long_event();
  EventFraming framing() const;  // of bodies whose length is not known
  std::unique_ptr<StreamWriter> make_writer() const;
  void end_generation();
  void end_exchange();

  // writing
  void write_out();
  void wait_writable();
  void settle();
  void linger();
  void end_output();

  // leaving
  void on_client_gone();
  void check_request_deadlines(Clock::time_point now);
  ResponseIdentity identity() const;

  Shard& shard_;
  Service& service_;
  const Limits& limits_;
  const Door door_;
  const Door entrance_;  // by which routes and the shape of errors are found
  ClientSocket socket_;
  RequestParser parser_;
  Phase phase_ = Phase::kReading;

  std::optional<Exchange> exchange_;
  std::unique_ptr<Generation> generation_;
  std::optional<StoredRequest> stored_;           // the request to the store
  std::optional<ApiEmbeddingRequest> embedding_;  // without its inputs
  std::optional<ApiTokenRequest> tokens_;         // without its prompt
  std::uint64_t num_requests_ = 0;
  std::uint64_t num_read_ahead_ = 0;  // bytes that came while an answer is under way
  bool input_ended_ = false;
  bool is_waiting_readable_ = false;

  OutgoingBytes out_;
  bool is_waiting_writable_ = false;
  bool is_dirty_ = false;  // the shard is going to flush

  std::optional<Clock::time_point> record_since_;  // of TLS, whose end has not come
  bool has_request_begun_ = false;
  bool has_body_begun_ = false;
  Clock::time_point idle_since_, request_since_, body_since_, linger_since_;
  Clock::time_point write_progress_;  // when the client last took something
};

}  // namespace troupe
