package kafka

const prefetchBudget = 64 << 20

type budget struct{ left int }
