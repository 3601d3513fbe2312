// Package recordbatch reads and writes Kafka's record batches, version 2 (magic
// 2, KIP-98), straight between a batch's bytes and record.Record.
//
// Reader walks what a Fetch answer holds for one partition. It decides which
// records are visible: not below the wanted offset, not control records, not of
// an aborted transaction. It also decides where the next fetch begins: behind the last
// offset a batch covers, not behind its last record, so that the holes which
// compaction leaves are passed. It uses nothing of a batch before its CRC-32C
// and the shape of every record in it are checked: a batch is delivered from
// its first record on or not at all. Builder writes one batch, uncompressed,
// with the producer id, epoch and sequence that make a repeat harmless (R9).
//
// Null and empty stay apart for keys, values and header values, and headers
// keep order and duplicates (R8). Records alias the bytes they were read from.
// A length, a count or a size that the bytes merely claim never causes an
// allocation which the bytes at hand do not justify, and decompression stops at
// Limits.MaxDecompressed whatever a frame declares.
//
// # Layout of a batch
//
// Big-endian; the CRC covers everything from the attributes on, so base offset,
// length, leader epoch and magic are outside it:
//
//	 0 base offset      int64     23 last offset delta  int32
//	 8 length           int32     27 base timestamp     int64
//	12 leader epoch     int32     35 max timestamp      int64
//	16 magic            int8      43 producer id        int64
//	17 CRC-32C          uint32    51 producer epoch     int16
//	21 attributes       int16     53 base sequence      int32
//	                              57 number of records  int32
//
// then the records, compressed as a whole or not. Attributes: bits 0-2 the codec,
// bit 3 LogAppendTime, bit 4 transactional, bit 5 control, bit 6 delete horizon
// (which changes nothing for a reader: timestamps stay relative to the base).
//
// # What it must not touch
//
// No network, no clock, no file, no goroutine: nothing here is started, so
// nothing is to be ended or awaited. The only state outside a Reader or Builder are pools of
// decoders and scratch buffers. Fetching, retrying and splitting a refused batch belong to
// delivery/kafka.
package recordbatch
