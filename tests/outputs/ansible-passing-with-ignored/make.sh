# needs: ansible-playbook
# packages: pip: ansible-core==2.17.7
PATH=${VENV:-/tmp/outputs-venv}/bin:$PATH
export ANSIBLE_HOME=$PWD/.ansible ANSIBLE_LOCAL_TEMP=$PWD/.ansible/tmp ANSIBLE_REMOTE_TEMP=$PWD/.ansible/rt ANSIBLE_NOCOLOR=1 ANSIBLE_NOCOWS=1 ANSIBLE_PIPELINING=1 ANSIBLE_FORKS=2
{ printf '[app]\n'; for i in 1 2 3; do echo "app$i ansible_connection=local"; done; printf '[all:vars]\nansible_python_interpreter=/usr/bin/python3\n'; } > hosts.ini
cat > deploy.yml <<'Y'
- name: Deploy
  hosts: app
  gather_facts: false
  any_errors_fatal: false
  vars: { base: "{{ playbook_dir }}/out/{{ inventory_hostname }}", release: 20251103 }
  tasks:
    - name: Directories
      ansible.builtin.file: { path: "{{ base }}/{{ item }}", state: directory, mode: "0755" }
      loop: [releases, shared, logs]
    - name: Stop the old service
      ansible.builtin.command: "kill -TERM {{ 99999990 + (inventory_hostname[-1] | int) }}"
      ignore_errors: true
    - name: Remove the old release
      ansible.builtin.command: "rmdir {{ base }}/releases/20251001"
      ignore_errors: true
    - name: Fetch the artifact
      block:
        - name: From the cache
          ansible.builtin.command: "cat {{ playbook_dir }}/cache/{{ release }}.tar"
      rescue:
        - name: Build it instead
          ansible.builtin.copy: { content: "release {{ release }}\n", dest: "{{ base }}/releases/{{ release }}.tar", mode: "0644" }
    - name: Write configuration
      ansible.builtin.copy: { content: "env: production\n", dest: "{{ base }}/shared/config.yml", mode: "0600", force: true }
    - name: Link shared configuration
      ansible.builtin.file: { src: "{{ base }}/shared/config.yml", path: "{{ base }}/releases/config.yml", state: link }
    - name: Check the release
      ansible.builtin.shell: "grep -q 'env: production' {{ base }}/releases/config.yml && echo 0 errors"
      changed_when: false
    - name: Health
      ansible.builtin.shell: "for i in 1 2 3 4 5 6; do echo \"GET /health/$i 200 errors=0\"; done"
      changed_when: false
    - name: Rotate logs
      ansible.builtin.command: "touch {{ base }}/logs/error.log"
    - name: Disable maintenance
      ansible.builtin.file: { path: "{{ base }}/maintenance", state: absent }
    - name: List
      ansible.builtin.command: "ls -la {{ base }} {{ base }}/releases {{ base }}/shared"
      changed_when: false
Y
echo ==OUTPUT==
ansible-playbook -v -i hosts.ini deploy.yml 2>&1 | sed -E 's/root  ?root/deploy deploy/g; s/"(owner|group)": "root"/"\1": "deploy"/g'
exit ${PIPESTATUS[0]}
