// How a lost page is survived: the kernel answers a touch of a page that its file no longer has (truncated, or the disk
// failed) with SIGBUS on the touching thread. Our handler looks the address up among the live mappings, puts a page of
// zeros there, marks the mapping as failed and returns; the touch is repeated and reads zeros. Addresses that are not
// ours go to the handler that was there before.
//
// The handler may run on any thread at any moment, so it takes no lock and allocates nothing. The registry is a list
// of nodes that only grows; the node of a destroyed mapping is reused by a later one and never freed. A node's range is
// two words, and a foreign fault may read them while another thread reuses the node. `end` is therefore cleared before
// `begin` changes and set after it, and the handler believes a range only if `end` is the same before and after reading
// `begin`. The node of the mapping that really faulted can't change meanwhile: its owner is busy touching it.
#include "base/mapping.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/format.h"

namespace strata {
namespace {

struct Node {
  std::atomic<bool> used{true};
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};  // 0: no mapping
  std::atomic<bool> failed{false};
  std::atomic<bool> writable{false};
  std::atomic<uintptr_t> page{0};  // bytes that are lost together
  Node* next = nullptr;  // set before the node is published
};

std::atomic<Node*> registry{nullptr};
uintptr_t page_bytes = 0;
struct sigaction previous_action;

Node* acquire_node() {
  for (Node* node = registry.load(); node != nullptr; node = node->next) {
    bool used = false;
    if (node->used.compare_exchange_strong(used, true)) {
      node->failed.store(false);
      return node;
    }
  }
  Node* node = new Node;
  node->next = registry.load();
  while (!registry.compare_exchange_weak(node->next, node)) {
  }
  return node;
}

void release_node(Node* node) {
  node->end.store(0);
  node->used.store(false);
}

bool covers(const Node& node, uintptr_t address) {
  for (;;) {
    const uintptr_t end = node.end.load();
    const uintptr_t begin = node.begin.load();
    if (node.end.load() == end) return begin <= address && address < end;
  }
}

bool replace_page(uintptr_t address) {
  for (Node* node = registry.load(); node != nullptr; node = node->next) {
    if (!covers(*node, address)) continue;
    node->failed.store(true);
    const int access = node->writable.load() ? PROT_READ | PROT_WRITE : PROT_READ;
    const uintptr_t bytes = node->page.load();
    // The bare system call: sanitizers wrap mmap in code that is not made for signal handlers.
    const long page = syscall(SYS_mmap, address & ~(bytes - 1), bytes, access,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    return page != -1;
  }
  return false;
}

// Acts as if our handler had not been installed.
void chain_sigbus(int signal_number, siginfo_t* info, void* context) {
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal_number, info, context);
    return;
  }
  const bool from_kernel = info->si_code > 0;
  if (previous_action.sa_handler == SIG_IGN && !from_kernel) return;
  if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(signal_number);
    return;
  }
  // A fault can't be ignored: repeated under the default action it ends the process where it happened. A signal that
  // somebody sent is not repeated by itself; raised here, it arrives when this handler returns.
  struct sigaction default_action {};
  default_action.sa_handler = SIG_DFL;
  sigaction(signal_number, &default_action, nullptr);
  if (!from_kernel) raise(signal_number);
}

void on_sigbus(int signal_number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const bool from_kernel = info->si_code > 0;
  if (!from_kernel || !replace_page(reinterpret_cast<uintptr_t>(info->si_addr))) {
    chain_sigbus(signal_number, info, context);
  }
  errno = saved_errno;
}

void install_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    sigaction(SIGBUS, nullptr, &previous_action);  // known before ours can run
    struct sigaction action {};
    action.sa_sigaction = on_sigbus;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, nullptr);
  });
}

class RealMapping final : public WritableMapping {
 public:
  RealMapping(std::byte* address, size_t size, uintptr_t page, bool writable)
      : address_(address), size_(size), node_(acquire_node()) {
    const auto begin = reinterpret_cast<uintptr_t>(address);
    node_->page.store(page);
    node_->writable.store(writable);
    node_->begin.store(begin);
    node_->end.store(begin + align_up(size, page));
  }
  ~RealMapping() override {
    release_node(node_);
    munmap(address_, size_);
  }
  RealMapping(const RealMapping&) = delete;
  RealMapping& operator=(const RealMapping&) = delete;

  std::span<const std::byte> bytes() const override { return {address_, size_}; }
  bool failed() const override { return node_->failed.load(std::memory_order_acquire); }

  void will_need(size_t offset, size_t bytes) override {
    const size_t first = offset / page_bytes * page_bytes;
    madvise(address_ + first, offset + bytes - first, MADV_WILLNEED);
  }

  std::span<std::byte> writable_bytes() override {
    ASSERT(node_->writable.load());
    return {address_, size_};
  }

  Status make_read_only() override {
    node_->writable.store(false);
    if (mprotect(address_, size_, PROT_READ) == 0) return {};
    return Error{ErrorCode::kIo, format("cannot make {} of memory read-only: {}", format_bytes(size_),
                                        errno_text(errno))};
  }

 private:
  std::byte* address_;
  size_t size_;
  Node* node_;
};

// There are no mappings of zero bytes.
class EmptyMapping final : public Mapping {
 public:
  std::span<const std::byte> bytes() const override { return {}; }
  bool failed() const override { return false; }
};

Error map_error(const std::string& path, uint64_t bytes, int error) {
  return {error == ENOMEM ? ErrorCode::kNoMemory : ErrorCode::kIo,
          format("cannot map {} of {}: {}", format_bytes(bytes), printable(path), errno_text(error))};
}

// Address space that begins at a multiple of `alignment`, cut from a piece that is larger by as much.
Result<std::byte*> reserve(uint64_t bytes, uint64_t alignment, const std::string& path) {
  const std::optional<uint64_t> wanted = checked_add(bytes, alignment);
  if (!wanted) return map_error(path, bytes, ENOMEM);
  void* found = mmap(nullptr, *wanted, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return map_error(path, bytes, errno);
  auto* const first = static_cast<std::byte*>(found);
  auto* const begin = reinterpret_cast<std::byte*>(align_up(reinterpret_cast<uintptr_t>(first), alignment));
  const auto before = static_cast<size_t>(begin - first);
  if (before > 0) munmap(first, before);
  munmap(begin + align_up(bytes, page_bytes), alignment - before);
  return begin;
}

Result<std::unique_ptr<RealMapping>> map_at_border(int fd, const MapRange& range, bool writable,
                                                   const std::string& path) {
  ASSERT(range.bytes > 0);
  ASSERT(range.offset % range.page_bytes == 0);
  install_handler();
  ASSIGN_OR_RETURN(std::byte* const place, reserve(range.bytes, range.page_bytes, path));
  const int access = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* address = mmap(place, range.bytes, access, MAP_SHARED | MAP_FIXED, fd, static_cast<off_t>(range.offset));
  if (address == MAP_FAILED) {
    const int error = errno;
    munmap(place, align_up(range.bytes, page_bytes));
    return map_error(path, range.bytes, error);
  }
  return std::make_unique<RealMapping>(static_cast<std::byte*>(address), range.bytes, range.page_bytes, writable);
}

}  // namespace

Result<std::unique_ptr<Mapping>> map_file(int fd, uint64_t size, const std::string& path) {
  if (size == 0) return std::unique_ptr<Mapping>(std::make_unique<EmptyMapping>());
  install_handler();
  void* address = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return map_error(path, size, errno);
  return std::unique_ptr<Mapping>(
      std::make_unique<RealMapping>(static_cast<std::byte*>(address), size, page_bytes, false));
}

Result<std::unique_ptr<WritableMapping>> map_writable(int fd, const MapRange& range, const std::string& path) {
  ASSIGN_OR_RETURN(auto mapping, map_at_border(fd, range, true, path));
  return std::unique_ptr<WritableMapping>(std::move(mapping));
}

Result<std::unique_ptr<Mapping>> map_range(int fd, const MapRange& range, const std::string& path) {
  ASSIGN_OR_RETURN(auto mapping, map_at_border(fd, range, false, path));
  return std::unique_ptr<Mapping>(std::move(mapping));
}

std::string errno_text(int error) {
  char buffer[128];
  return strerror_r(error, buffer, sizeof(buffer));  // the GNU variant, which returns the text
}

}  // namespace strata
