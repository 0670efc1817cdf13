// SPDX-License-Identifier: Apache-2.0
#include "telemetry/gzip.hpp"

#include <zlib.h>

#include <stdexcept>

namespace troupe {

std::string gzipped(std::string_view bytes) {
  constexpr int kGzip = 16;  // added to the window's bits: gzip's head and checksum
  constexpr int kUsualMemory = 8;
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + kGzip, kUsualMemory,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("no memory to compress " + std::to_string(bytes.size()) + " bytes");
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // it is only read
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const bool is_complete = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (!is_complete)
    throw std::runtime_error("a body of " + std::to_string(bytes.size()) + " bytes did not compress");
  return out;
}

}  // namespace troupe
