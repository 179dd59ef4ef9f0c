"""fsspec's sftp, for hosts that are known: its own takes whatever key is shown."""

from __future__ import annotations

import paramiko
from fsspec.implementations.sftp import SFTPFileSystem


class CheckedSftp(SFTPFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Refuses a host whose key is not in ``~/.ssh/known_hosts``."""

    cachable = False

    def _connect(self) -> None:
        client = paramiko.SSHClient()
        client.load_system_host_keys()
        client.set_missing_host_key_policy(paramiko.RejectPolicy())
        try:
            client.connect(self.host, **self.ssh_kwargs)
        except (paramiko.SSHException, OSError) as error:
            client.close()
            raise OSError(f"{self.host}: {error} (its key must be in ~/.ssh/known_hosts)") from error
        self.client = client
        self.ftp = client.open_sftp()
