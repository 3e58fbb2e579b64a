package certcrypto

type KeyType string

const (
	EC256   KeyType = "EC256"
	EC384   KeyType = "EC384"
	RSA2048 KeyType = "RSA2048"
	RSA4096 KeyType = "RSA4096"
	RSA8192 KeyType = "RSA8192"
)
