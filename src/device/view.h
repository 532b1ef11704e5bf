// Typed views of memory: rows x cols elements of T, `stride` elements from row to row. In, Out and InOut say what an
// operation does with them; the byte ranges of an operation are derived from these types alone.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/memory.h"

namespace strata::device {

template <class T>
struct View {
  Memory* memory = nullptr;
  size_t offset = 0;  // bytes from the start of the memory to the first element
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  // elements

  bool empty() const { return memory == nullptr; }
  // Host pointer to row r; on the host and simulated devices only.
  T* row(int64_t r) const { return reinterpret_cast<T*>(memory->address() + offset) + r * stride; }
  T* data() const { return row(0); }

  // Columns [begin, begin + count) of every row.
  View columns(int64_t begin, int64_t count) const {
    ASSERT(begin >= 0);
    ASSERT(begin + count <= cols);
    return {memory, offset + static_cast<size_t>(begin) * sizeof(T), rows, count, stride};
  }
  // Rows [begin, begin + count).
  View slice(int64_t begin, int64_t count) const {
    ASSERT(begin >= 0);
    ASSERT(begin + count <= rows);
    return {memory, offset + static_cast<size_t>(begin * stride) * sizeof(T), count, cols, stride};
  }
  View first_rows(int64_t count) const { return slice(0, count); }

  Range range(bool write) const {
    return {memory, offset, static_cast<size_t>(cols) * sizeof(T), rows, static_cast<size_t>(stride) * sizeof(T),
            write};
  }
};

// A view of a whole memory as rows x cols, packed.
template <class T>
View<T> view_of(Memory& memory, int64_t rows, int64_t cols, size_t offset = 0) {
  ASSERT(offset + static_cast<size_t>(rows * cols) * sizeof(T) <= memory.bytes());
  return {&memory, offset, rows, cols, cols};
}

template <class T>
struct In : View<T> {
  In() = default;
  In(const View<T>& view) : View<T>(view) {}
};
template <class T>
struct Out : View<T> {
  Out() = default;
  Out(const View<T>& view) : View<T>(view) {}
};
template <class T>
struct InOut : View<T> {
  InOut() = default;
  InOut(const View<T>& view) : View<T>(view) {}
};

// Whether two views share bytes, taken as plain intervals (an operation that writes beside its own input has to use
// columns() of one buffer, which this sees as shared; such operations say so in their check).
template <class A, class B>
bool overlap(const View<A>& a, const View<B>& b) {
  if (a.empty() || b.empty() || a.memory != b.memory || a.rows == 0 || b.rows == 0) return false;
  const auto end = [](const auto& v, size_t element) {
    return v.offset + static_cast<size_t>((v.rows - 1) * v.stride + v.cols) * element;
  };
  return a.offset < end(b, sizeof(B)) && b.offset < end(a, sizeof(A));
}

}  // namespace strata::device
