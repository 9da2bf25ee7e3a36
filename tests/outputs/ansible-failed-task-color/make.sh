# needs: ansible-playbook
# packages: pip: ansible-core==2.17.7
PATH=${VENV:-/tmp/outputs-venv}/bin:$PATH
export ANSIBLE_HOME=$PWD/.ansible ANSIBLE_LOCAL_TEMP=$PWD/.ansible/tmp ANSIBLE_REMOTE_TEMP=$PWD/.ansible/rt ANSIBLE_FORCE_COLOR=1 ANSIBLE_NOCOWS=1 ANSIBLE_PIPELINING=1 ANSIBLE_FORKS=2
{ printf '[web]\n'; for i in 1 2 3; do echo "web$i ansible_connection=local"; done; printf '[db]\ndb1 ansible_connection=local\n[all:vars]\nansible_python_interpreter=/usr/bin/python3\n'; } > hosts.ini
cat > site.yml <<'Y'
- name: Base configuration
  hosts: all
  gather_facts: false
  vars: { base: "{{ playbook_dir }}/out/{{ inventory_hostname }}" }
  tasks:
    - name: Create directories
      ansible.builtin.file: { path: "{{ base }}/{{ item }}", state: directory, mode: "0755" }
      loop: [etc, var/log, var/lib, srv/www, srv/error-pages]
    - name: Write error pages
      ansible.builtin.copy: { content: "<h1>Error {{ item }}</h1>\n", dest: "{{ base }}/srv/error-pages/{{ item }}.html", mode: "0644" }
      loop: [404, 500, 502, 503]
    - name: Look whether the agent is installed
      ansible.builtin.command: "test -x {{ base }}/usr/bin/agent"
      register: agent
      changed_when: false
      failed_when: false
    - name: Say that the agent is missing
      ansible.builtin.debug: { msg: "agent failed the check with rc {{ agent.rc }}, error ignored" }
- name: Web servers
  hosts: web
  gather_facts: false
  vars: { base: "{{ playbook_dir }}/out/{{ inventory_hostname }}", ports: { web1: 8080, web2: 8080, web4: 8080 } }
  tasks:
    - name: Render virtual hosts
      ansible.builtin.template: { src: vhost.j2, dest: "{{ base }}/etc/{{ item }}.conf", mode: "0644" }
      loop: [shop, admin, api]
    - name: Wait for the port file
      ansible.builtin.shell: "test -f {{ base }}/ready || { touch {{ base }}/ready; exit 1; }"
      register: r
      until: r.rc == 0
      retries: 3
      delay: 0
      changed_when: false
    - name: Write index
      ansible.builtin.copy: { content: "{{ inventory_hostname }}\n", dest: "{{ base }}/srv/www/index.html", mode: "0644" }
    - name: Count files
      ansible.builtin.command: "find {{ base }} -type f"
      register: files
      changed_when: false
    - name: Show files
      ansible.builtin.debug: { var: files.stdout_lines }
- name: Database
  hosts: db
  gather_facts: false
  vars: { base: "{{ playbook_dir }}/out/{{ inventory_hostname }}" }
  tasks:
    - name: Write settings
      ansible.builtin.copy: { content: "{{ item }}=1\n", dest: "{{ base }}/etc/{{ item }}.ini", mode: "0644" }
      loop: [max_connections, shared_buffers, work_mem, log_errors, ignore_errors]
    - name: Read settings
      ansible.builtin.command: "cat {{ base }}/etc/{{ item }}.ini"
      loop: [max_connections, shared_buffers, work_mem, log_errors, ignore_errors]
      changed_when: false
Y
printf 'server { listen {{ ports[inventory_hostname] }}; server_name {{ item }}.example.com; root {{ base }}/srv/www; error_page 404 /404.html; }\n' > vhost.j2
echo ==OUTPUT==
ansible-playbook -v -i hosts.ini --diff site.yml 2>&1
